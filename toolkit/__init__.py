"""The tools of an operator or analyst, on top of a running service or of its files."""


class ToolError(Exception):
    """Ends a command; the message is for the user."""

    exit_code = 1
