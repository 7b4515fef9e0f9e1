"""Processes that end with their parent, and drain before they end.

The file also runs as a script, without other packages, so it imports only the standard library.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1


def spare_lasting_objects() -> None:
    """Exempt existing objects from garbage collection, and collect less often.

    Requests in flight outlive the youngest generation. With the default thresholds, frequent full collections took a
    third of a worker's time.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def exit_despite_threads(code: int) -> None:
    """End the process immediately if daemon threads are running.

    A thread inside a compilation or a kernel cannot be stopped, and may crash the interpreter's shutdown.
    """
    if any(thread.daemon and thread is not threading.current_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def die_with_parent(parent_pid: int | None = None) -> None:
    """Make Linux send SIGTERM to this process when its parent ends, for any reason.

    Linux watches the *thread* that started this process, so the parent must start it from a thread that outlives it.
    Without `parent_pid`, the parent is the process that started this one with multiprocessing, if any. Raises
    `SystemExit` if the parent has already ended.
    """
    if parent_pid is None:
        from multiprocessing import parent_process  # noqa: PLC0415 - would double the start-up time of the launcher

        parent = parent_process()
        parent_pid = None if parent is None else parent.pid
    if parent_pid is None or sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - may be missing outside Linux

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent_pid:  # the parent ended before `prctl`
        raise SystemExit(1)


def tied_workers() -> dict[str, Any]:
    """Return joblib options for worker processes that end with this one, even if it is killed."""
    return {"initializer": _begin_worker, "initargs": (os.getpid(),)}


def _begin_worker(parent_pid: int) -> None:
    """Ignore Ctrl-C, which also reaches the parent: when the parent ends, this process ends too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent_pid)


def tied_command(command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` until this process ends. `command` must begin with an absolute path."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _launch(parent_pid: str, program: str, *arguments: str) -> None:
    die_with_parent(int(parent_pid))
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    _launch(*sys.argv[1:])


class Draining:
    """Delays the first SIGTERM by `seconds`, if not 0, and sets `has_begun` at once. Does not delay a second one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.has_begun = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Wrap the current SIGTERM handler, if there is a delay and this is the main thread; restore it at the end."""
        if not self._seconds or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGTERM)
        assert callable(before)

        def begin(number: int, frame: FrameType | None) -> None:
            if self.has_begun:
                before(number, frame)
                return
            self.has_begun = True
            later = threading.Timer(self._seconds, before, (number, frame))
            later.daemon = True
            later.start()

        signal.signal(signal.SIGTERM, begin)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
