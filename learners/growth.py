"""Adds labels to a trained learner, which keeps its state for the existing labels."""

import dataclasses
from typing import Any, cast

from learners.base import AnyLearner, InvalidStateError, StateT
from learners.layouts import resized, state_layout


def grown(learner: AnyLearner, n_labels: int) -> AnyLearner:
    """Return the learner for K = n_labels. Raises `InvalidStateError` or `ValidationError` if it cannot have this K."""
    if not learner.labels_grow:
        raise InvalidStateError(f"the labels of {learner.algorithm} are fixed: none can be added")
    if n_labels < learner.problem.n_labels:
        raise InvalidStateError(f"{learner.algorithm} cannot have {n_labels} labels: it has {learner.problem.n_labels}")
    problem = dataclasses.replace(learner.problem, n_labels=n_labels)
    return cast(AnyLearner, dataclasses.replace(cast(Any, learner), problem=problem))


def with_more_labels(learner: AnyLearner, larger: AnyLearner, state: StateT) -> StateT:
    """Convert a state of `learner` to one of `larger`, whose first labels are the same, in new arrays.

    New labels start as in a new state. Each array becomes the leading block of the larger one: labels are its last
    axis, or its rows are ordered by label. Raises `InvalidStateError` if `larger` is not `grown(learner, n)` for any n.
    """
    if larger != grown(learner, larger.problem.n_labels):
        raise InvalidStateError(f"{larger.algorithm} differs from {learner.algorithm} in more than its labels")
    result, old = larger.init(), cast(Any, state)._asdict()
    for name, layout in state_layout(larger).items():
        if layout.grows:
            result = resized(larger, result, len(old[name]))
            break
    for name, array in result._asdict().items():
        array[tuple(slice(length) for length in old[name].shape)] = old[name]
    return cast(StateT, result)
