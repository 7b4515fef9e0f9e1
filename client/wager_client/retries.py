"""Decides when a call is attempted again. No clock, no waiting and no network."""

from collections.abc import Callable, Iterator, Mapping

from wager_client.errors import DeadlineError, NoAnswerError, ProblemError, WagerError
from wager_client.transports import Options

LONGEST_WAIT = 5.0
LONGEST_ATTEMPT = 5.0
"""Maximum seconds of a quick attempt that is not the last: a dead worker's connection may hang for half a minute."""

_LEAST_TIMEOUT = 0.001
_LEAST_SHARE = 1.0


class Attempts:
    """The attempts of one call.

    Args:
        options: the deadline, the number of retries and the first wait. Waits double, up to `LONGEST_WAIT`.
        repeatable: whether the request may be sent again if the service may have done it.
        quick: whether an attempt has at most `LONGEST_ATTEMPT`, and leaves half of the time to the next ones, because a
            connection to a dead worker may hang.
        now: returns seconds of a monotonic clock.
        draw: returns a random number in [0, 1).
    """

    def __init__(
        self,
        options: Options,
        repeatable: bool,
        quick: bool,
        now: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        self.failed = 0
        self._options, self._repeatable, self._quick = options, repeatable, quick
        self._now, self._draw = now, draw
        self._deadline = self._end = now() + options.timeout

    def left(self) -> float:
        """Return the seconds until the deadline, negative after it."""
        return self._deadline - self._now()

    def begin(self) -> None:
        """Begin an attempt. The last one has all the time that is left."""
        self._end = self._deadline
        if self._quick and self._repeatable and self.failed < self._options.max_retries:
            share = min(LONGEST_ATTEMPT, max(self.left() / 2, _LEAST_SHARE))
            self._end = min(self._deadline, self._now() + share)

    def attempt_left(self) -> float:
        """Return the seconds that the attempt may still take, negative after its end."""
        return self._end - self._now()

    def check(self) -> None:
        """Check the time of the attempt.

        Raises:
            NoAnswerError: after its end.
        """
        if self.attempt_left() <= 0:
            raise self.timeout_error()

    def timeout_error(self) -> NoAnswerError:
        """Return the error of an attempt that took too long."""
        if self._end < self._deadline:
            return NoAnswerError("no answer in the time of one attempt")
        return DeadlineError(f"no answer within {self._options.timeout:g} s")

    def wait_after(self, error: WagerError) -> float:
        """Return the seconds to wait before the next attempt.

        Raises:
            WagerError: the error, if there is no next attempt: it would not help, might do the request twice, or would
                begin after the deadline.
        """
        if not error.is_away or (error.maybe_done and not self._repeatable) or self.failed >= self._options.max_retries:
            raise error
        wait = min(LONGEST_WAIT, self._options.backoff * 2.0**self.failed) * (0.5 + self._draw())
        if isinstance(error, ProblemError) and error.retry_after is not None:
            wait = max(wait, error.retry_after)
        if wait >= self.left():
            raise error
        self.failed += 1
        return wait


class RemainingTime(Mapping[str, float]):
    """The timeouts of httpx, each the time that an attempt has left when it is read."""

    _NAMES = ("connect", "read", "write", "pool")

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __getitem__(self, name: str) -> float:
        if name not in self._NAMES:
            raise KeyError(name)
        return max(_LEAST_TIMEOUT, self._attempts.attempt_left())

    def __iter__(self) -> Iterator[str]:
        return iter(self._NAMES)

    def __len__(self) -> int:
        return len(self._NAMES)
