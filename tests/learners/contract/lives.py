"""Runs of each implementation that the contract tests examine, and selection of implementations by capability."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.answers import draw_answers, uniforms_per_answer
from learners.base import AnyLearner, Contexts, Decisions, FloatArray, Problem, Rounds
from learners.layouts import state_layout
from tests.learners.arrays import same_rows
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import join, other_answers, play, world_for

PROBLEM = Problem(4, 5)
N = 300


class Life(NamedTuple):
    case: Case
    learner: AnyLearner
    rounds: Rounds
    distributions: FloatArray  # (N, K), decided one at a time
    state: Any  # after all rounds


@cache
def life_of(number: int) -> Life:
    case = IMPLEMENTATIONS[number]
    learner = case.at(PROBLEM)
    steps = list(play(learner, world_for(learner, 7, N)))
    return Life(case, learner, join(steps), np.array([s.distribution for s in steps]), steps[-1].after)


def only_for(capable: Callable[[AnyLearner], bool]) -> pytest.MarkDecorator:
    return only_cases(lambda case: capable(case.at(PROBLEM)))


def only_cases(capable: Callable[[Case], bool]) -> pytest.MarkDecorator:
    found = [number for number, case in enumerate(IMPLEMENTATIONS) if capable(case)]
    assert found, "no implementation has this capability, so the test would check nothing"
    return pytest.mark.parametrize("life", found, ids=[str(IMPLEMENTATIONS[number]) for number in found], indirect=True)


_FIRST = {case.learner: number for number, case in reversed(list(enumerate(IMPLEMENTATIONS)))}.values()
of_each_algorithm = pytest.mark.parametrize(
    "life", _FIRST, ids=[str(IMPLEMENTATIONS[i]) for i in _FIRST], indirect=True
)
"""Apply a test to the first implementation of each algorithm: its hyperparameters do not matter."""


def has_layout(learner: AnyLearner, state: Any) -> bool:
    layout, arrays = state_layout(learner), state._asdict()
    return arrays.keys() == layout.keys() and all(
        layout[name].fits(field) and ((field >= layout[name].least) & (field <= layout[name].most)).all()
        for name, field in arrays.items()
    )


def decide_rounds(learner: AnyLearner, state: Any, contexts: Contexts, seed: int) -> tuple[Decisions, Rounds]:
    rng = np.random.default_rng(seed)
    decisions = learner.decide(state, contexts)
    uniforms = rng.random((contexts.n, uniforms_per_answer(learner)))
    labels, propensities, residual_uniforms = draw_answers(learner, decisions, uniforms)
    truth = np.where(rng.random(contexts.n) < 0.7, labels.T, other_answers(learner, labels).T).T
    correct = same_rows(labels, truth)
    return decisions, Rounds.of_bits(
        contexts, labels, propensities, correct, truth, decisions.evidence, residual_uniforms
    )
