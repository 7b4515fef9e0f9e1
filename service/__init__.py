"""The input and output of Wager: HTTP, the store, the command line."""

__version__ = "0.2.0.dev0"
