"""The law of generated requests: whoever sends them, every answer is described and no model is harmed."""

import pytest

from tests.fuzz.api.__main__ import fuzz
from tests.fuzz.api.checks import CHECKS


@pytest.mark.parametrize("keys", [False, True], ids=["without keys", "with keys"])
def test_generated_requests_find_nothing(keys: bool) -> None:
    """Some hundred requests of each kind pass all checks; `python -m tests.fuzz.api` sends more."""
    built, kinds = fuzz(300, keys, 7)
    assert list(built.counts.failures.values()) == []
    assert kinds["in chains"] > 50
    made = set(built.counts.checks)
    of_keys = {name for name in CHECKS if "key" in name or "foreign" in name}
    assert made - of_keys == set(CHECKS) - of_keys | {"control model equals its fold"}
    assert not keys or "foreign model is hidden" in made
