"""`python -m service`, the same as the command `wager`."""

from service.commands.main import main

main()
