"""`wager` without the warm-up: each kernel is loaded by the first request that needs it.

A worker loads all kernels in the background after it starts, which takes as long as its imports. Tests start dozens of
workers and need few kernels. Run it as `python -m tests.service.cold serve …`. `tests.chaos` runs the real command.
"""

import threading

_start = threading.Thread.start


def _start_unless_warm_up(thread: threading.Thread) -> None:
    if thread.name != "warm-up":
        _start(thread)


if __name__ in ("__main__", "__mp_main__"):  # the second in one of several workers
    threading.Thread.start = _start_unless_warm_up  # type: ignore[method-assign, assignment]

if __name__ == "__main__":
    from service.commands.main import main

    main()
