"""Tools for operators and analysts, which work with a running service or its files."""


class ToolError(Exception):
    """Ends a command; the message is for the user."""

    exit_code = 1
