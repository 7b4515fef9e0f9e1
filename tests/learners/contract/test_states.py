"""States: their layout, size, first value and warnings; every registered learner is tested."""

import dataclasses

import numpy as np
import pytest

from learners.answers import is_structured
from learners.base import StateTooLargeError
from learners.layouts import state_bytes
from learners.new_models import check_state_size
from learners.registry import ALL_LEARNERS, LEARNERS, RECOMMENDED, STRUCTURED_LEARNERS
from tests.learners.arrays import bits
from tests.learners.contract.lives import Life, has_layout
from tests.learners.implementations import IMPLEMENTATIONS


def test_state_has_its_declared_layout(life: Life) -> None:
    for state in (life.learner.init(), life.state):
        assert type(state) is life.learner.state_type
        assert has_layout(life.learner, state)


def test_oversized_state_is_refused_with_its_size_and_an_alternative(life: Life) -> None:
    needed = state_bytes(life.learner)
    assert needed == sum(field.nbytes for field in life.state)
    check_state_size(life.learner, needed)
    with pytest.raises(StateTooLargeError, match=f"{needed:,} bytes.*; use {life.learner.smaller} instead"):
        check_state_size(life.learner, needed - 1)


def test_init_returns_a_fresh_state(life: Life) -> None:
    one, two = life.learner.init(), life.learner.init()
    assert bits(one) == bits(two)
    assert not any(np.shares_memory(a, b) for a, b in zip(one, two, strict=True))


def test_warnings_are_sentences_about_hyperparameters_or_features(life: Life) -> None:
    assert life.learner.warnings(life.learner.init()) == []
    names = {field.name for field in dataclasses.fields(life.case.learner)} - {"problem"} | {"features"}
    warnings = life.learner.warnings(life.state)
    assert type(warnings) is list
    for warning in warnings:
        name, _, sentence = warning.partition(": ")
        assert name in names
        assert sentence.endswith(".")


def test_every_registered_learner_is_tested() -> None:
    assert {case.learner for case in IMPLEMENTATIONS} == set(ALL_LEARNERS.values())
    assert all(cls.algorithm == name for name, cls in ALL_LEARNERS.items())
    assert not any(is_structured(cls) for cls in LEARNERS.values())
    assert all(is_structured(cls) for cls in STRUCTURED_LEARNERS.values())
    assert RECOMMENDED in LEARNERS.values()
