"""How much memory this process may use: that of the machine, or less if a control group limits it."""

import os
from collections.abc import Iterator
from pathlib import Path

_FILES = {"": ("", "memory.max"), "memory": ("memory", "memory.limit_in_bytes")}
"""The folder of all control groups, and the file of each that has its limit, by controller: "" in version 2."""


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes of the machine's memory, or the smallest limit of the process's control groups if it is less.

    Args:
        root: the folder that has `proc` and `sys`.
    """
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """Yield the limits of the process's control groups, and of those around them."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        for folder, file in (_FILES[each] for each in controllers.split(",") if each in _FILES):
            base = root / "sys/fs/cgroup" / folder
            own = base / group.strip(
                "/"
            )  # in a container, it may not exist under this name: then the base has the limit
            for each in (own, *own.parents[: len(own.parts) - len(base.parts)]):
                if (limit := _text(each / file).strip()).isdigit():  # "max" is none
                    yield int(limit)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
