"""Lowers the priority of the store's background work.

Valkey rewrites its append-only file in a child process, which uses a whole core while it runs. Under full load, it runs
for about one second in twenty. On machines with few cores, requests had to wait for it.
"""

import contextlib
import os
from pathlib import Path

NICENESS = 19
"""Niceness of the children: they get about 1/70 of a core if all cores are busy, and idle time otherwise."""


def lower_children_priority(pid: int) -> None:
    """Give every child of a process the lowest priority. Do nothing on systems that do not list children."""
    for child in children_of(pid):
        with contextlib.suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, child, NICENESS)


def children_of(pid: int) -> list[int]:
    """Return the children that the main thread of a process started; none on systems that do not list them."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
