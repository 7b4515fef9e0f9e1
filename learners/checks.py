"""Checks of the shapes, dtypes and ranges that compiled code relies on, once per batch.

Compiled code reads and writes wherever an index points, so every array from outside passes through here. Callers
that made the arrays themselves may use the verbs whose names end in `unchecked`.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from learners.base import (
    NO_LABEL,
    AnswerKind,
    BoolArray,
    FloatArray,
    IntArray,
    InvalidArrayError,
    InvalidStateError,
    Problem,
    Rounds,
)
from learners.context_checks import BOOL, FLOAT, INT, check_contexts, expect_array
from learners.kernels import compiled
from learners.layouts import ArrayLayout, check_rows, state_layout

_LARGEST_SUM_ERROR = 1e-9
"""Tolerance for the sum of a distribution: far above rounding errors, far below a caller's mistakes."""

_ROUND_FAULTS = (
    "",
    "labels: must be from 0 to K-1",
    "true_labels: must be from 0 to K-1, or NO_LABEL",
    "propensities: must be above 0 and at most 1",
    "residual_uniforms: must be at least 0 and below 1",
    "rewards: must be from 0 to 1, and 1 where correct",
    "eligible: must include the label",
)
_, _LABEL, _TRUTH, _PROPENSITY, _RESIDUAL, _REWARD, _ELIGIBLE = range(len(_ROUND_FAULTS))

_DRAW_FAULTS = (
    "",
    "uniforms: must be at least 0 and below 1",
    "distributions: must not be negative, and each row must sum to 1",
)
_, _UNIFORM, _DISTRIBUTION = range(len(_DRAW_FAULTS))


# --- rounds


def check_rounds(rounds: Rounds, problem: Problem, evidence_size: int, answer: AnswerKind) -> None:
    """Refuse rounds that cannot result from a decision of the learner.

    Args:
        rounds: the rounds; every field must have n entries.
        problem: gives K and d.
        evidence_size: E.
        answer: the kind of answer, which decides whether labels are (n,) or (n, K).

    Raises:
        InvalidArrayError: if a field is invalid; the message names it.
    """
    if type(rounds) is not Rounds:
        raise InvalidArrayError(f"rounds: must be Rounds, not {type(rounds).__name__}")
    check_contexts(rounds.contexts, problem.n_features)
    n, K, rows = rounds.contexts.n, problem.n_labels, answer in ("label-set", "ranking")
    expect_array("labels", rounds.labels, INT, 2 if rows else 1, (n, K) if rows else (n,))
    expect_array("propensities", rounds.propensities, FLOAT, 1, (n,))
    expect_array("correct", rounds.correct, BOOL, 1, (n,))
    expect_array("true_labels", rounds.true_labels, INT, 2 if rows else 1, (n, K) if rows else (n,))
    expect_array("evidence", rounds.evidence, FLOAT, 2, (n, evidence_size))
    expect_array("residual_uniforms", rounds.residual_uniforms, FLOAT, 1, (n,))
    expect_array("rewards", rounds.rewards, FLOAT, 1, (n,))
    check_eligible(rounds.eligible, n, K, answer)
    if not np.isfinite(rounds.evidence).all():
        raise InvalidArrayError("evidence: every number must be finite")
    fault, where = _number_fault(rounds.propensities, rounds.residual_uniforms)
    if fault == 0:
        fault, where = _reward_fault(rounds.rewards, rounds.correct)
    if fault == 0 and not rows:
        fault, where = _label_fault(rounds.labels, rounds.true_labels, rounds.eligible, K)
    if fault:
        raise InvalidArrayError(f"{_ROUND_FAULTS[fault]} (round {where}, K = {K})")
    if rows:
        known = (rounds.true_labels != NO_LABEL).any(axis=1)
        _check_rows("labels", rounds.labels, answer)
        _check_rows("true_labels", rounds.true_labels[known], answer)


def check_eligible(eligible: BoolArray, n: int, n_labels: int, answer: AnswerKind) -> None:
    """Refuse anything but (n, K) booleans with an eligible label in each row, or (n, 0); structured answers: (n, 0).

    Raises:
        InvalidArrayError: if it is invalid; the message names the field.
    """
    expect_array("eligible", eligible, BOOL, 2)
    one_label = answer not in ("label-set", "ranking")
    if eligible.shape not in {(n, 0), (n, n_labels if one_label else 0)}:
        raise InvalidArrayError(f"eligible: must have shape ({n}, {n_labels if one_label else 0}) or ({n}, 0)")
    if eligible.shape[1] and not eligible.any(axis=1).all():
        raise InvalidArrayError("eligible: every row must have a label")


@compiled
def _reward_fault(rewards: FloatArray, correct: BoolArray) -> tuple[int, int]:
    for t in range(len(rewards)):
        if not (rewards[t] >= 0.0 and rewards[t] <= 1.0) or (rewards[t] == 1.0) != correct[t]:
            return _REWARD, t
    return 0, 0


@compiled
def _label_fault(labels: IntArray, true_labels: IntArray, eligible: BoolArray, K: int) -> tuple[int, int]:
    for t in range(len(labels)):
        if labels[t] < 0 or labels[t] >= K:
            return _LABEL, t
        if eligible.shape[1] > 0 and not eligible[t, labels[t]]:
            return _ELIGIBLE, t
        if true_labels[t] < NO_LABEL or true_labels[t] >= K:
            return _TRUTH, t
    return 0, 0


@compiled
def _number_fault(propensities: FloatArray, residual_uniforms: FloatArray) -> tuple[int, int]:
    for t in range(len(propensities)):
        if not (propensities[t] > 0.0 and propensities[t] <= 1.0):
            return _PROPENSITY, t
        if not (residual_uniforms[t] >= 0.0 and residual_uniforms[t] < 1.0):
            return _RESIDUAL, t
    return 0, 0


def _check_rows(name: str, rows: IntArray, answer: AnswerKind) -> None:
    if answer == "ranking":
        legal, expected = (np.sort(rows, axis=1) == np.arange(rows.shape[1])).all(), "each label once"
    else:
        legal, expected = ((rows == 0) | (rows == 1)).all(), "zeros and ones"
    if not legal:
        raise InvalidArrayError(f"{name}: every row must have {expected}")


def check_truths(true_labels: IntArray, problem: Problem, answer: AnswerKind) -> None:
    """Refuse true labels that are not answers of this kind.

    Raises:
        InvalidArrayError: if they are not; the message names the field.
    """
    if answer in ("label-set", "ranking"):
        expect_array("true_labels", true_labels, INT, 2, (len(true_labels), problem.n_labels))
        _check_rows("true_labels", true_labels, answer)
    else:
        check_labels("true_labels", true_labels, len(true_labels), problem.n_labels)


# --- draws


def check_draw(distributions: FloatArray, uniforms: FloatArray) -> None:
    """Refuse distributions (n, K) that are not distributions, and uniforms (n,) outside [0, 1).

    Raises:
        InvalidArrayError: if one is invalid; the message names the field.
    """
    expect_array("distributions", distributions, FLOAT, 2)
    expect_array("uniforms", uniforms, FLOAT, 1, (len(distributions),))
    fault, where = _draw_fault(distributions, uniforms)
    if fault:
        raise InvalidArrayError(f"{_DRAW_FAULTS[fault]} (row {where})")


def check_uniforms(uniforms: FloatArray, shape: tuple[int, ...]) -> None:
    """Refuse uniforms of another shape, or outside [0, 1).

    Raises:
        InvalidArrayError: if they are invalid; the message names the field.
    """
    expect_array("uniforms", uniforms, FLOAT, len(shape), shape)
    if not ((uniforms >= 0.0) & (uniforms < 1.0)).all():
        raise InvalidArrayError(_DRAW_FAULTS[_UNIFORM])


@compiled
def _draw_fault(distributions: FloatArray, uniforms: FloatArray) -> tuple[int, int]:
    for i in range(len(uniforms)):
        if not (uniforms[i] >= 0.0 and uniforms[i] < 1.0):
            return _UNIFORM, i
        total, least = 0.0, 0.0
        for probability in distributions[i]:
            total += probability
            least = min(least, probability)
        if not (least >= 0.0 and abs(total - 1.0) <= _LARGEST_SUM_ERROR):
            return _DISTRIBUTION, i
    return 0, 0


# --- labels and states


def check_labels(name: str, labels: IntArray, n: int, n_labels: int) -> None:
    """Refuse anything but n labels from 0 to n_labels - 1.

    Raises:
        InvalidArrayError: if a label is out of range; the message names the field.
    """
    expect_array(name, labels, INT, 1, (n,))
    if not ((labels >= 0) & (labels < n_labels)).all():
        raise InvalidArrayError(f"{name}: must be from 0 to {n_labels - 1}")


def check_state(state: Any, learner: Any) -> None:
    """Refuse a state whose type, dtypes or shapes are not those of this learner.

    Raises:
        InvalidStateError: if one differs; the message names the array.
    """
    if type(state) is not learner.state_type:
        raise InvalidStateError(f"the state is of type {type(state).__name__}, not {learner.state_type.__name__}")
    layouts = _layouts_of(learner)
    for array, (name, layout) in zip(state, layouts.items(), strict=True):
        if not layout.fits(array):
            raise InvalidStateError(f"{name} must be an array of {layout}")
    check_rows(state._asdict(), layouts)


@lru_cache(maxsize=256)
def _layouts_of(learner: Any) -> dict[str, ArrayLayout]:
    return state_layout(learner)
