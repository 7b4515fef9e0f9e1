"""Draining: after SIGTERM, a worker keeps serving but is not ready, so that load balancers avoid it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Draining:
    """Delays SIGTERM, and reports whether it has arrived.

    Args:
        seconds: delay of the first SIGTERM. A second one is not delayed.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.has_begun = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Wrap the current SIGTERM handler, if a delay is set."""
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
