"""A lock that gives a directory one owner at a time. The owner's child processes can share it."""

import fcntl
import os
import time
from pathlib import Path

_POLL_SECONDS = 0.005


class FolderInUseError(OSError):
    """Another process owns the directory. The message names the directory and the process."""


def lock_folder(folder: Path, seconds: float) -> int:
    """Become the owner of a directory; create it with mode 0700 if it is missing.

    Args:
        folder: the directory. Its file `lock` contains the owner's process id.
        seconds: maximum wait for another owner to leave.

    Returns:
        A file descriptor. The lock lasts until every copy of it is closed, in this process and in those that
        inherited it.

    Raises:
        FolderInUseError: if the other owner does not leave in time.
        OSError: if the directory cannot be created or written.
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
                "stop that process, or choose another directory"
            )
        time.sleep(_POLL_SECONDS)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
