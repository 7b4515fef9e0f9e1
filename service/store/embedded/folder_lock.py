"""A folder with one owner at a time, by a lock that the owner's child processes can share."""

import fcntl
import os
import time
from pathlib import Path

_POLL_SECONDS = 0.005


class FolderInUseError(OSError):
    """Another process owns the folder; the message names both."""


def lock_folder(folder: Path, seconds: float) -> int:
    """Make `folder` (mode 0700) if it is missing, and become its owner.

    Args:
        folder: The folder; its file `lock` holds the owner's process id.
        seconds: Longest wait for another owner to leave.

    Returns:
        A file descriptor. The folder is owned until every copy of it is
        closed, in this process and in those that inherited it.

    Raises:
        FolderInUseError: When the other owner has not left in time.
        OSError: When the folder cannot be made or written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _wait_for_lock(lock, folder, seconds)
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _wait_for_lock(lock: int, folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _try_lock(lock):
        if time.monotonic() > deadline:
            owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise FolderInUseError(
                f"the data directory {folder} is in use by another process (pid {owner}): "
                "stop that one, or choose another directory"
            )
        time.sleep(_POLL_SECONDS)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
