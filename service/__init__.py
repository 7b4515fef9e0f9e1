"""Everything of Wager with input and output: HTTP, the store, the command line."""

__version__ = "0.2.0.dev0"
