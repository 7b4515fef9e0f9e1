"""The error of files that cannot be read or written."""

from pathlib import Path


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
