"""The law of generated requests: every answer is described, whatever key it has, and no model is harmed."""

from tests.fuzz.api.__main__ import fuzz
from tests.fuzz.api.checks import CHECKS


def test_generated_requests_find_nothing() -> None:
    """Some hundred requests, of all senders, pass all checks; `python -m tests.fuzz.api` sends more."""
    built, kinds = fuzz(300, keys=True, seed=7)
    assert list(built.counts.failures.values()) == []
    assert min(kinds["in chains"], kinds["alone"]) > 50
    assert set(built.counts.checks) == {*CHECKS, "control model equals its fold"}
