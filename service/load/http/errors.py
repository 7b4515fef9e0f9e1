"""The error of a load that cannot run."""


class LoadError(Exception):
    """The load cannot run; the message says why."""
