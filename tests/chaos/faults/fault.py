"""What a fault is, and what this machine lacks for some of them."""

import shutil
import subprocess
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any

Fault = Callable[[], Coroutine[Any, Any, None]]
"""Injects a fault, and returns after the fault is over."""


class MissedError(Exception):
    """The fault found nothing that it could harm, and is not counted."""


@cache
def refused_packet_faults() -> str:
    """Return why the kernel cannot lose and reorder packets here; empty if it can."""
    return refused("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "0ms") or refused(
        "tc", "qdisc", "del", "dev", "lo", "root"
    )


def refused(program: str, *arguments: str) -> str:
    """Run a program; return why it fails, empty if it does not."""
    if (path := shutil.which(program)) is None:
        return f"no {program} on the PATH"
    ended = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else (ended.stderr.strip() or f"{program} ended with {ended.returncode}")
