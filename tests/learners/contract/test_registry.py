"""The registry, and the list of implementations that every contract test runs on."""

from learners.answers import is_structured
from learners.registry import ALL_LEARNERS, LEARNERS, RECOMMENDED, STRUCTURED_LEARNERS
from tests.learners.implementations import IMPLEMENTATIONS


def test_every_registered_learner_is_tested() -> None:
    """The implementations cover the registry, which lists each learner under its algorithm name."""
    assert {case.learner for case in IMPLEMENTATIONS} == set(ALL_LEARNERS.values())
    assert all(cls.algorithm == name for name, cls in ALL_LEARNERS.items())
    assert not any(is_structured(cls) for cls in LEARNERS.values())
    assert all(is_structured(cls) for cls in STRUCTURED_LEARNERS.values())
    assert RECOMMENDED in LEARNERS.values()
