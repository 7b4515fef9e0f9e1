"""What can go wrong before anything is measured."""


class LoadError(Exception):
    """The load cannot be run; the message says why."""
