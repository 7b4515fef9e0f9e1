"""Processes that end with the one that started them.

Run as a script, this file ties itself to its parent and then becomes another
program: ``python processes.py PARENT_PID PROGRAM ARGUMENT...``. A launcher is
used instead of a ``preexec_fn`` because the parent has threads, and Python
code between fork and exec can then deadlock. It imports nothing heavy, for it
runs at every start.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def spare_lasting_objects() -> None:
    """Keeps the garbage collector off what was made at the start, and from running at every few requests.

    Requests in flight outlive the youngest generation, which made full collections of the whole program
    frequent: they took a third of a worker's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def leave_threads_behind(code: int) -> None:
    """End the process at once if daemon threads are still at work, which the interpreter's own end may crash.

    A thread in the middle of a compilation or a kernel cannot be ended; the process can.

    Args:
        code: the exit code.
    """
    if any(thread.daemon and thread is not threading.current_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def die_with_parent(parent_pid: int | None = None) -> None:
    """Ask the kernel to send this process SIGTERM when its parent ends, however that ends.

    The kernel watches the *thread* that started this process, so the parent
    must start it from a thread that lives as long as the process should.
    Outside Linux there is no such request and this does nothing.

    Args:
        parent_pid: The parent to live with. None means the process that
            started this one by multiprocessing; in a process that was not
            started so (a service with one worker), this does nothing.

    Raises:
        SystemExit: When the parent has already gone.
    """
    pid = _multiprocessing_parent() if parent_pid is None else parent_pid
    if pid is None or sys.platform != "linux":
        return
    _request_parent_death_signal(signal.SIGTERM)
    if os.getppid() != pid:  # it went before the kernel was asked
        raise SystemExit(1)


def tied_command(command: Sequence[str]) -> list[str]:
    """Return the command that runs `command`, an absolute program first, tied to this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _multiprocessing_parent() -> int | None:
    from multiprocessing import parent_process  # noqa: PLC0415 - doubles the launcher's start-up

    parent = parent_process()
    return None if parent is None else parent.pid


def _request_parent_death_signal(number: int) -> None:
    import ctypes  # noqa: PLC0415 - not every Python outside Linux has it

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def _launch(parent_pid: str, program: str, *arguments: str) -> None:
    die_with_parent(int(parent_pid))
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    _launch(*sys.argv[1:])
