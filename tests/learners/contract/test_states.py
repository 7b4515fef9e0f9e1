"""States: their layout, their size, a fresh one from each `init`, and warnings of limits."""

import dataclasses

import numpy as np
import pytest

from learners.base import StateTooLargeError
from learners.layouts import state_bytes
from learners.new_models import check_state_size
from tests.learners.arrays import bits
from tests.learners.contract.lives import Life, has_layout, life_of
from tests.learners.implementations import IMPLEMENTATIONS


def test_state_has_its_declared_layout(life: Life) -> None:
    """Each array has the dtype, shape and limits that its field declares, before and after folds."""
    for state in (life.learner.init(), life.state):
        assert type(state) is life.learner.state_type
        assert has_layout(life.learner, state)


def test_state_bytes_is_the_size_of_a_state(life: Life) -> None:
    """`state_bytes` computes the size of a state without making one."""
    assert state_bytes(life.learner) == sum(field.nbytes for field in life.state)


def test_oversized_state_is_refused_with_its_size_and_an_alternative(life: Life) -> None:
    """A state one byte over the limit is refused with its size and an alternative."""
    needed = state_bytes(life.learner)
    check_state_size(life.learner, needed)
    with pytest.raises(StateTooLargeError, match=f"{needed:,} bytes.*; use {life.learner.smaller} instead"):
        check_state_size(life.learner, needed - 1)


def test_init_returns_a_fresh_state(life: Life) -> None:
    """Two first states are equal bit for bit and share no memory."""
    one, two = life.learner.init(), life.learner.init()
    assert bits(one) == bits(two)
    assert not any(np.shares_memory(a, b) for a, b in zip(one, two, strict=True))


def test_warnings_are_sentences_about_hyperparameters(life: Life) -> None:
    """A first state has no warnings; each later one is a sentence that begins with the hyperparameter it is about."""
    assert life.learner.warnings(life.learner.init()) == []
    names = {field.name for field in dataclasses.fields(life.case.learner)} - {"problem"}
    warnings = life.learner.warnings(life.state)
    assert type(warnings) is list
    for warning in warnings:
        name, _, sentence = warning.partition(": ")
        assert name in names
        assert sentence.endswith(".")


def test_a_small_limit_is_reached() -> None:
    """The law above sees warnings: some implementations reach a limit in their run."""
    lives = [life_of(number) for number in range(len(IMPLEMENTATIONS))]
    warned = {life.learner.algorithm for life in lives if life.learner.warnings(life.state)}
    assert warned == {"bandit-perceptrons-kernel", "fastcb", "soba-low-rank"}
