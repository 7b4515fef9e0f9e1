"""The fixture that runs a contract test on every implementation."""

import pytest

from tests.learners.contract.lives import Life, life_of
from tests.learners.implementations import IMPLEMENTATIONS


@pytest.fixture(params=range(len(IMPLEMENTATIONS)), ids=[str(case) for case in IMPLEMENTATIONS])
def life(request: pytest.FixtureRequest) -> Life:
    return life_of(request.param)
