"""The error of files that cannot be read or written."""

from pathlib import Path
from typing import Any


class FileError(Exception):
    """A file is of another format, damaged, or does not fit the model. The message is for the user.

    Args:
        path: the file.
        place: the line or the part, such as `line 3`; "" for the whole file.
        reason: what is wrong with it.
    """

    def __init__(self, path: Path, place: str, reason: str) -> None:
        super().__init__(f"{path}: {place + ': ' if place else ''}{reason}")
        self.path = path
        self.place = place
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Make a copy possible: an error passes from one process to another."""
        return type(self), (self.path, self.place, self.reason)
