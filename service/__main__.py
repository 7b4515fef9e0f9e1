"""`python -m service`: the same as the command `wager`."""

from service.cli import main

main()
