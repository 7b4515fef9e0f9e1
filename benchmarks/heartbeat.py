"""Standstills of the event loop of a worker, with their causes.

A beat is due every two milliseconds. A late beat counts only as far as the process used a processor, so waits
for a processor on a busy machine do not count, but waits for a thread that holds the interpreter's lock do.
"""

import asyncio
import gc
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import APIRouter

_BEAT_SECONDS = 0.002
_LATE_SECONDS = 0.010
"""From this delay on, the function that runs is noted."""

_ROOT = str(Path(__file__).parents[1])


class Standstill(NamedTuple):
    """The longest time without a beat."""

    cpu_seconds: float  # processor time of the event loop's thread
    seconds: float  # as described above
    cause: str


class Heartbeat:
    """Beats in a running event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._longest = Standstill(0.0, 0.0, "")
        self._beat_at = time.perf_counter()
        self._seen: dict[str, int] = {}  # how often a function ran while a beat was late
        self._collecting = 0.0

    def restart(self) -> Standstill:
        """Return the longest standstill since the last call."""
        if self._task is None:
            self._task = asyncio.create_task(self._beat())
            gc.callbacks.append(self._note_collection)
            watcher = threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True)
            watcher.start()
        longest, self._longest = self._longest, Standstill(0.0, 0.0, "")
        return longest

    async def _beat(self) -> None:
        while True:
            for pause in (0.0, _BEAT_SECONDS):
                before = self._clocks()
                await asyncio.sleep(pause)
                self._note(before, pause)

    def _clocks(self) -> tuple[float, float, float]:
        self._beat_at, self._seen, self._collecting = time.perf_counter(), {}, 0.0
        return self._beat_at, time.process_time(), time.thread_time()

    def _note(self, before: tuple[float, float, float], pause: float) -> None:
        wall, process = time.perf_counter() - before[0] - pause, time.process_time() - before[1]
        thread, stopped = time.thread_time() - before[2], min(wall, process)
        longest = self._longest
        if stopped > longest.seconds:
            longest = longest._replace(seconds=stopped, cause=self._cause(stopped))
        self._longest = longest._replace(cpu_seconds=max(longest.cpu_seconds, thread))

    def _cause(self, seconds: float) -> str:
        if self._collecting > seconds / 2:
            return "garbage collection"
        return max(self._seen, key=lambda name: self._seen[name], default="many short callbacks")

    def _note_collection(self, phase: str, _: dict[str, Any]) -> None:
        now = time.perf_counter()
        self._collecting += now if phase == "stop" else -now

    def _watch(self, loop_thread: int) -> None:
        """Note what runs while a beat is late."""
        while True:
            time.sleep(_LATE_SECONDS / 2)
            if time.perf_counter() - self._beat_at > _LATE_SECONDS:
                for thread, frame in sys._current_frames().items():  # noqa: SLF001  the only way to see other threads
                    name = _place(frame)
                    if name and thread != threading.get_ident():
                        text = name if thread == loop_thread else f"{name} in a thread"
                        self._seen[text] = self._seen.get(text, 0) + 1


def _place(frame: Any) -> str:
    """Return the innermost function of this project, or nothing while a thread waits."""
    if frame.f_code.co_filename.endswith(("threading.py", "queue.py", "heartbeat.py")):
        return ""
    while frame is not None and not _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or frame.f_code.co_name == "_work":  # a thread without a job
        return ""
    return f"{Path(frame.f_code.co_filename).relative_to(_ROOT)}:{frame.f_code.co_name}"


def _is_ours(file: str) -> bool:
    return file.startswith(_ROOT) and "site-packages" not in file and not file.endswith("launch.py")


def standstill_route() -> APIRouter:
    """Return a route that reports the longest standstill since its last call."""
    routes, heartbeat = APIRouter(prefix="/bench"), Heartbeat()

    @routes.post("/standstill")
    async def standstill() -> dict[str, Any]:
        return heartbeat.restart()._asdict()

    return routes
