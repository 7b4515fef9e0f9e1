"""Checks the state in a model's file: its numbers, and whether the learner can decide and learn with them."""

from typing import Any

import numpy as np

from learners.answers import draw_answers_unchecked, is_structured, uniforms_per_answer
from learners.base import AnyLearner, Contexts, Decisions, FloatArray, Rounds
from learners.codec import decode_state
from service.input_errors import ModelFileError
from service.replicas.folding.guarded_fold import learn

_LARGEST = 1e60
"""The largest number of a state. The products that learners compute from larger ones may overflow."""

_CONTEXTS, _NONZEROS = 4, 32
_UNIFORM = 0.4


def foreign_state(learner: AnyLearner, data: memoryview, *, decides: bool) -> Any:
    """Return the state in a file.

    Args:
        learner: the learner that the file names.
        data: the file.
        decides: whether to try a decision and an update. Learners of actions cannot decide without actions.

    Raises:
        InvalidStateError: if the file has no state of this learner.
        ModelFileError: if a number is too large, or the learner cannot decide or learn with the state.
    """
    state = decode_state(learner, data)
    for name, array in state._asdict().items():
        if array.dtype.kind == "f" and max(array.max(initial=0.0), -array.min(initial=0.0)) > _LARGEST:
            raise ModelFileError(f"its state: {name} holds numbers above {_LARGEST:g}")
    if decides and not _works(learner, type(state)(*(array.copy() for array in state))):
        raise ModelFileError("its state: the learner cannot decide and learn with these numbers")
    return state


def _works(learner: AnyLearner, state: Any) -> bool:
    """Check whether decisions and updates for some contexts are finite. May change the state."""
    contexts = _contexts(learner)
    try:
        with np.errstate(all="ignore"):
            decisions = learner.decide_unchecked(state, contexts)
            if not _is_sound(learner, decisions):
                return False
            rounds = _rounds(learner, contexts, decisions)
            return learn(learner, state, rounds)[1] == rounds.n
    except (ArithmeticError, ValueError, IndexError):  # of corrupt numbers in code that is not compiled
        return False


def _contexts(learner: AnyLearner) -> Contexts:
    """Return contexts of the largest norm, with few non-zeros."""
    problem = learner.problem
    m = min(problem.n_features, _NONZEROS)
    places = np.linspace(0, problem.n_features - 1, m).astype(np.int64)
    signs = np.ones((_CONTEXTS, m))
    signs[1::2, ::2] = -1.0
    signs[2:, m // 2 :] *= -1.0
    values = signs * (min(problem.norm_bound, 1.0) / np.sqrt(m))
    return Contexts(np.arange(_CONTEXTS + 1) * m, np.tile(places, _CONTEXTS), values.ravel(), shared=False)


def _is_sound(learner: AnyLearner, decisions: Decisions) -> bool:
    p: FloatArray = decisions.distributions
    sums = is_structured(learner) or bool(np.allclose(p.sum(axis=1), 1.0))
    return sums and bool(np.isfinite(decisions.evidence).all() and ((p >= 0.0) & (p <= 1.0 + 1e-9)).all())


def _rounds(learner: AnyLearner, contexts: Contexts, decisions: Decisions) -> Rounds:
    """Return rounds with the drawn answers, every second of which is wrong if it is a label."""
    uniforms = np.full((contexts.n, uniforms_per_answer(learner)), _UNIFORM)
    labels, propensities, residual_uniforms = draw_answers_unchecked(learner, decisions, uniforms)
    truths, correct = labels.copy(), np.ones(contexts.n, np.bool_)
    if not is_structured(learner):
        truths[::2] = (labels[::2] + 1) % learner.problem.n_labels
        correct[::2] = False
    return Rounds.of_bits(contexts, labels, propensities, correct, truths, decisions.evidence, residual_uniforms)
