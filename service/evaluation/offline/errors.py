"""The error of `wager evaluate`."""


class EvaluationError(Exception):
    """A file, a policy or a cluster that cannot be used; the message is for the user, with part and row."""
