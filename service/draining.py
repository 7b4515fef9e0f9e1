"""The last seconds of a worker: it still serves and says that it is not ready, so that balancers turn away from it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Draining:
    """Whether this process has been told to stop.

    Args:
        seconds: how long a SIGTERM is put off; a second one is not.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.has_begun = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Stands before the handler of SIGTERM that is there, where there is anything to put off."""
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
