"""The laws of the list: the registry, and the implementations that every law is held against."""

from learners.answers import is_structured
from learners.registry import ALL_LEARNERS, LEARNERS, RECOMMENDED, STRUCTURED_LEARNERS
from tests.learners.implementations import IMPLEMENTATIONS


def test_every_registered_learner_is_tested() -> None:
    """The list of implementations covers the registry, which names each learner as users do."""
    assert {case.learner for case in IMPLEMENTATIONS} == set(ALL_LEARNERS.values())
    assert all(cls.algorithm == name for name, cls in ALL_LEARNERS.items())
    assert not any(is_structured(cls) for cls in LEARNERS.values())
    assert all(is_structured(cls) for cls in STRUCTURED_LEARNERS.values())
    assert RECOMMENDED in LEARNERS.values()
