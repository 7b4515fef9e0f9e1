"""The store's work in the background, kept behind everything that somebody waits for.

Valkey rewrites its append-only file in a child process, which takes all of a core for as long as it runs. At a full
load that is one second in every twenty or so: where cores are few, requests queued behind it.
"""

import contextlib
import os
import subprocess
from pathlib import Path

NICENESS = 19
"""Of the children: about a seventieth of a core where all cores are wanted, else whatever nobody else wants."""

_LOOK_SECONDS = 0.05
"""How long a child may run before it is found: a small part of what the smallest rewrite takes."""


def wait_keeping_children_back(process: subprocess.Popen[bytes]) -> int:
    """Waits for the end of a process; returns its exit status. Meanwhile its children yield to everybody else."""
    while True:
        try:
            return process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            keep_children_back(process.pid)


def keep_children_back(pid: int) -> None:
    """Gives every child of a process the lowest priority; where the system does not tell them, nothing is done."""
    for child in children_of(pid):
        with contextlib.suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, child, NICENESS)


def children_of(pid: int) -> list[int]:
    """The processes that the first thread of a process has started; none where the system does not tell."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
