"""Everything of Wager with input and output: HTTP, the store, the command line."""

__version__ = "0.1.0"
