"""The input and output of Wager: HTTP, the store, the command line."""

__version__ = "0.1.0"
