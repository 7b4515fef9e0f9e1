"""System calls for the embedded store: the directory's lock, the available memory, the priority of child processes."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_SECONDS = 0.005


class FolderInUseError(OSError):
    """Another process owns the directory. The message names the directory and the process."""


def lock_folder(folder: Path, seconds: float) -> int:
    """Become the owner of a directory; create it with mode 0700 if it is missing.

    Args:
        folder: the directory. Its file `lock` contains the owner's process id.
        seconds: maximum wait for another owner to release the directory.

    Returns:
        A file descriptor. The lock lasts until all copies of the descriptor are closed, in this process and in those
        that inherited it.

    Raises:
        FolderInUseError: if another owner does not release it in time.
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


_FILES = {"": ("", "memory.max"), "memory": ("memory", "memory.limit_in_bytes")}
"""Maps a controller ("" in cgroup version 2) to the folder of its control groups and the file with a group's limit."""


def available_memory(root: Path = Path("/")) -> int:
    """Return the machine's memory in bytes, or the smallest limit of the process's control groups if that is smaller.

    Args:
        root: the folder that contains `proc` and `sys`.
    """
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """Yield the memory limits of the process's control groups and of the groups that contain them."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        for folder, file in (_FILES[each] for each in controllers.split(",") if each in _FILES):
            base = root / "sys/fs/cgroup" / folder
            # In a container, the group may not exist under this name; `base` then has the limit.
            own = base / group.strip("/")
            for each in (own, *own.parents[: len(own.parts) - len(base.parts)]):
                if (limit := _text(each / file).strip()).isdigit():  # "max" means that there is no limit
                    yield int(limit)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


NICENESS = 19
"""Niceness of the child processes. If all cores are busy, each gets about 1/70 of a normal process's time."""


def lower_children_priority(pid: int) -> None:
    """Give every child of a process the lowest priority. Do nothing on systems that do not list children."""
    for child in children_of(pid):
        with contextlib.suppress(OSError):  # the child has ended
            os.setpriority(os.PRIO_PROCESS, child, NICENESS)


def children_of(pid: int) -> list[int]:
    """Return the ids of the processes that a process's main thread started; none on systems that do not list them."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
