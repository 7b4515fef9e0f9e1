"""Compiles the service's kernels into the cache, so that starts and requests need not compile."""

import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache

from learners import kernel_cache, kernels
from learners.warming import Call, parts

_MOST_PROCESSES = 4  # each takes 0.7 GB
_LOW_PRIORITY = 10
_START = "fork" if sys.platform == "linux" else "spawn"  # a forked process need not import numba again


def compile_kernels(*, beside_service: bool) -> None:
    """Compile the kernels that are not in the cache. Two processes begin with the recommended learner.

    Then, if `beside_service`, one process of low priority compiles the other learners, requested ones first. Otherwise,
    one process per core does, at most 4.
    """
    signal.signal(signal.SIGTERM, _end)
    first, *others = _parts()
    if not kernel_cache.is_compiled(first):
        _compile_together([first], 2)
    if beside_service:
        os.nice(_LOW_PRIORITY)
        for part in _asked_for_first(others):
            _compile(part)
    else:
        _compile_together(others, min(multiprocessing.cpu_count(), _MOST_PROCESSES))
        _compile_together([first, *others], 1)  # adds cache entries that were lost to concurrent writes
    if all(map(kernel_cache.is_compiled, _parts())):
        kernel_cache.note_compiled(kernel_cache.ALL)


@cache
def _parts() -> dict[str, list[Call]]:
    return {part: list(calls) for part, calls in parts().items()}


def _compile_together(names: list[str], processes: int) -> None:
    """Divide the calls of some parts among new processes."""
    places = [(name, i) for name in names for i in range(len(_parts()[name]))]
    try:
        with ProcessPoolExecutor(processes, multiprocessing.get_context(_START), _end_with_parent) as pool:
            are_stored = list(pool.map(_compile_one, *zip(*places, strict=True)))
            for name in names if all(are_stored) else ():
                kernel_cache.note_compiled(name)
    except BrokenProcessPool:  # one was killed, perhaps for lack of memory
        for name in names:
            _compile(name)


def _end_with_parent() -> None:
    """End this process when its parent ends in any way: it would keep the lock of the cache."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _compile_one(part: str, place: int) -> bool:
    """Compile the kernels of a call; return whether all that this process has compiled is stored."""
    gc.set_threshold(100_000, 50, 100)  # compilation creates many objects that last: a sixth of the time
    _parts()[part][place]()
    return not kernels.unstored


def _compile(part: str) -> None:
    if all([_compile_one(part, place) for place in range(len(_parts()[part]))]):
        kernel_cache.note_compiled(part)


def _asked_for_first(names: list[str]) -> Iterator[str]:
    """Yield the parts that are not compiled, requested ones first."""
    left = [name for name in names if not kernel_cache.is_compiled(name)]
    while left:
        part = (kernel_cache.asked_for(left) or left)[0]
        left.remove(part)
        yield part


def _end(*_: object) -> None:
    """End at once, with the processes that this one has started."""
    for process in multiprocessing.active_children():
        process.kill()
    os._exit(1)
