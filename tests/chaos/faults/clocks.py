"""Clocks that jump: those of the workers, and that of the store, by libfaketime."""

import asyncio
import contextlib
import random
from collections.abc import Mapping
from pathlib import Path

from tests.chaos.faults.fault import Fault

HOUR = 3600
"""Seconds that a clock jumps."""

_LIBRARIES = sorted(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"))
_SHARED = Path("/dev/shm")


def refused_clocks() -> str:
    """Return why clocks cannot jump here; empty if they can."""
    return "" if _LIBRARIES else "no libfaketimeMT.so.1 under /usr/lib (Debian: apt install libfaketime)"


class FakeClock:
    """The clock of some processes; clocks that never go back stay true.

    Args:
        folder: where the file is that moves the clock.
        name: whose clock it is.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._file, self._name = folder / f"clock of {name}", name
        self.turn(0)

    def environment(self, others: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Return the variables with which the processes have to be started, and `others`, joined."""
        others = others or {}
        if refused_clocks():
            return others
        libraries = ":".join([*filter(None, [others.get("LD_PRELOAD")]), str(_LIBRARIES[0])])
        control = {"FAKETIME_TIMESTAMP_FILE": str(self._file), "FAKETIME_CACHE_DURATION": "1"}
        return {
            **others,
            **control,
            "LD_PRELOAD": libraries,
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
            "NO_FAKE_STAT": "1",
        }

    def turn(self, seconds: int) -> None:
        """Set how far the clock is ahead."""
        following = self._file.with_suffix(".new")
        following.write_text(f"{seconds:+d}\n")
        following.rename(self._file)  # a reader sees one offset or the other

    def faults(self, seconds: float, seed: int) -> dict[str, Fault]:
        """Return the fault by name: a jump of an hour, ahead or back, and the return after `seconds`."""
        chance = random.Random(seed)

        async def jump() -> None:
            self.turn(chance.choice((HOUR, -HOUR)))
            await asyncio.sleep(seconds)
            self.turn(0)

        return {} if refused_clocks() else {f"clock of {self._name}": jump}


def clear_shared_memory() -> None:
    """Remove what libfaketime has left of processes that were killed."""
    for file in _SHARED.glob("*faketime_s*_*"):
        if not Path("/proc", file.name.rpartition("_")[2]).exists():
            with contextlib.suppress(OSError):
                file.unlink()
