"""The implementations, each with its life, for every law that asks for one."""

import pytest

from tests.learners.contract.lives import Life, life_of
from tests.learners.implementations import IMPLEMENTATIONS


@pytest.fixture(params=range(len(IMPLEMENTATIONS)), ids=[str(case) for case in IMPLEMENTATIONS])
def life(request: pytest.FixtureRequest) -> Life:
    """Each implementation in turn, with its history."""
    return life_of(request.param)
