"""The laws of retries: the same id in every attempt, only where it is safe, and never after the deadline."""

from typing import Any

import pytest

from wager_client import DeadlineError, NoAnswerError, ProblemError, WagerError
from wager_client.errors import problem_of
from wager_client.retries import LONGEST_ATTEMPT, LONGEST_WAIT, Attempts, RemainingTime
from wager_client.transports import Options

AWAY = NoAnswerError("away")


def attempts(
    *,
    timeout: float = 100.0,
    max_retries: int = 3,
    repeatable: bool = True,
    quick: bool = False,
    clock: list[float] | None = None,
) -> Attempts:
    """Return attempts whose waits have no chance: half of the random range."""
    now = clock or [0.0]
    return Attempts(
        Options("http://w", None, timeout, max_retries, 0.1), repeatable, quick, lambda: now[0], lambda: 0.5
    )


def test_waits_double_up_to_a_limit() -> None:
    """Without chance, the waits are 0.1, 0.2, 0.4 seconds and so on, at most `LONGEST_WAIT`."""
    tried = attempts(max_retries=10)
    waits = [tried.wait_after(AWAY) for _ in range(10)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[LONGEST_WAIT] * 4])


def test_the_number_of_retries_is_limited() -> None:
    """After `max_retries` waits, the error is raised."""
    tried = attempts(max_retries=2)
    assert [tried.wait_after(AWAY) > 0 for _ in range(2)] == [True, True]
    with pytest.raises(NoAnswerError):
        tried.wait_after(AWAY)


def test_no_attempt_begins_after_the_deadline() -> None:
    """If the wait ends after the deadline, the error is raised at once."""
    clock = [0.0]
    tried = attempts(timeout=0.25, clock=clock)
    assert tried.wait_after(AWAY) == pytest.approx(0.1)
    clock[0] = 0.1
    with pytest.raises(NoAnswerError):
        tried.wait_after(AWAY)


def test_retry_after_is_a_lower_bound() -> None:
    """The client waits as long as the service asks for, and gives up if that is after the deadline."""
    assert attempts().wait_after(problem_of(429, {}, retry_after=7.0)) == 7.0
    assert attempts().wait_after(problem_of(503, {}, retry_after=0.0)) == pytest.approx(0.1)
    with pytest.raises(ProblemError):
        attempts(timeout=5.0).wait_after(problem_of(503, {}, retry_after=7.0))


@pytest.mark.parametrize(
    ("error", "safe", "unsafe"),
    [
        (NoAnswerError("lost"), True, False),
        (NoAnswerError("not connected", maybe_done=False), True, True),
        (problem_of(429, {"type": "urn:wager:problem:rate-limited"}), True, True),
        (problem_of(503, {"type": "urn:wager:problem:too-busy"}), True, True),
        (problem_of(503, {"type": "urn:wager:problem:store-unavailable"}), True, False),
        (problem_of(502, {}), True, False),
        (problem_of(408, {}), True, True),
        (problem_of(422, {}), False, False),
        (problem_of(404, {}), False, False),
        (problem_of(409, {}), False, False),
        (problem_of(501, {}), False, False),
    ],
)
def test_only_what_may_help_and_cannot_harm_is_repeated(error: WagerError, safe: bool, unsafe: bool) -> None:
    """Refusals are never repeated; unsafe requests only if the service has certainly not done them."""
    for repeatable, expected in ((True, safe), (False, unsafe)):
        try:
            attempts(repeatable=repeatable).wait_after(error)
            repeated = True
        except WagerError:
            repeated = False
        assert repeated == expected


def test_timeouts_shrink_with_the_time_left() -> None:
    """Each timeout of httpx is the time left when it is read, and never zero, which would mean something else."""
    clock = [0.0]
    times = RemainingTime(attempts(timeout=2.0, clock=clock))
    assert dict(times) == dict.fromkeys(("connect", "read", "write", "pool"), 2.0)
    clock[0] = 1.5
    assert times["read"] == 0.5
    clock[0] = 3.0
    assert times["read"] > 0


def test_an_attempt_that_hangs_leaves_time_for_the_next() -> None:
    """Each attempt of a quick call has half of the time left, at least a second; the last has all of it."""
    clock = [0.0]
    tried, ends = attempts(timeout=8.0, max_retries=3, quick=True, clock=clock), []
    for _ in range(4):
        tried.begin()
        clock[0] += tried.attempt_left()
        ends.append(clock[0])
        error = tried.timeout_error()
        tried.failed += 1
    assert ends == [4.0, 6.0, 7.0, 8.0]
    assert isinstance(error, DeadlineError)


def test_a_long_deadline_does_not_wait_for_a_dead_worker() -> None:
    """With a deadline of a minute, an attempt that hangs ends after `LONGEST_ATTEMPT`; the last has the rest."""
    clock = [0.0]
    tried, ends = attempts(timeout=60.0, max_retries=2, quick=True, clock=clock), []
    for _ in range(3):
        tried.begin()
        clock[0] += tried.attempt_left()
        ends.append(clock[0])
        tried.failed += 1
    assert ends == [LONGEST_ATTEMPT, 2 * LONGEST_ATTEMPT, 60.0]


@pytest.mark.parametrize("options", [{"repeatable": False, "quick": True}, {"quick": False}, {"max_retries": 0}])
def test_an_attempt_that_is_the_only_one_has_all_the_time(options: dict[str, Any]) -> None:
    """A call that is slow by nature, or not repeated, has the whole deadline."""
    tried = attempts(timeout=8.0, **{"quick": True} | options)
    tried.begin()
    assert tried.attempt_left() == 8.0
    assert isinstance(tried.timeout_error(), DeadlineError)
