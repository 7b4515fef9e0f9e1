"""Measures the processor time of what the event loop runs."""

from collections.abc import Awaitable, Callable, Generator
from time import thread_time
from types import coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


@coroutine
def metered(awaitable: Awaitable[_T], charge: Callable[[float], None]) -> Generator[Any, Any, _T]:
    """Await something, and charge the seconds of processor time that each of its steps takes in this thread."""
    running: Any = awaitable.__await__()
    step: Callable[[Any], Any] = running.send
    sent: Any = None
    while True:
        begun = thread_time()
        try:
            awaited = step(sent)
        except StopIteration as ended:
            result: _T = ended.value
            return result
        finally:
            charge(thread_time() - begun)
        try:
            step, sent = running.send, (yield awaited)
        except GeneratorExit:
            running.close()
            raise
        except BaseException as error:  # noqa: BLE001  a cancellation, for example: the coroutine decides
            step, sent = running.throw, error
