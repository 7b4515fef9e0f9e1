"""The prediction service: HTTP interface, rounds, store and command line."""

__version__ = "0.1.0"
