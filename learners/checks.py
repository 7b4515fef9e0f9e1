"""Checks of the shapes, dtypes and ranges that compiled code relies on, once per batch.

Compiled code reads and writes wherever an index points, so every array from outside passes through here. Callers
that built the arrays themselves may use the verbs whose names end in `unchecked`.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from learners.base import (
    NO_LABEL,
    AnswerKind,
    BoolArray,
    Contexts,
    FloatArray,
    IntArray,
    InvalidArrayError,
    InvalidStateError,
    Prices,
    Rounds,
    State,
)
from learners.kernels import compiled, compiled_sum
from learners.layouts import check_rows, state_layout

INT, FLOAT, BOOL = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_)

_ANY_FEATURE = 2**62  # d, if it is not known

_FEW_INDICES = 40  # up to this many indices, comparing all pairs is faster than sorting

_CONTEXT_FAULTS = (
    "",
    "starts: must begin with 0, not decrease, and end with the number of values",
    "values: every number must be finite",
    "indices: if all rows share them, they must be 0 … d-1, and each row must have d values",
    "indices: must have as many entries as values",
    "indices: must be from 0 to d-1",
    "indices: must be distinct within a context",
)
_, _STARTS, _FINITE, _SHARED, _COUNT, _RANGE, _TWICE = range(len(_CONTEXT_FAULTS))


def check_contexts(contexts: Contexts, n_features: int = _ANY_FEATURE) -> None:
    """Check that contexts are well-formed: see `Contexts` and `_CONTEXT_FAULTS`. Raises `InvalidArrayError`."""
    if type(contexts) is not Contexts:
        raise InvalidArrayError(f"contexts: must be Contexts, not {type(contexts).__name__}")
    starts, indices, values, shared = contexts
    expect_array("contexts.starts", starts, INT, 1)
    expect_array("contexts.indices", indices, INT, 1)
    expect_array("contexts.values", values, FLOAT, 1)
    if not isinstance(shared, bool | np.bool_):
        raise InvalidArrayError("contexts.shared: must be True or False")
    fault, where = _context_fault(contexts, n_features)
    if fault:
        size = "" if n_features == _ANY_FEATURE else f", d = {n_features}"
        raise InvalidArrayError(f"contexts.{_CONTEXT_FAULTS[fault]} (context {where}{size})")


@compiled
def _context_fault(contexts: Contexts, n_features: int) -> tuple[int, int]:
    """Return the first fault and the context that has it; fault 0 means none."""
    starts, indices, values, shared = contexts
    if not _are_starts(starts, len(values)):
        return _STARTS, 0
    if _nothing_but_zeros(values) != 0.0:
        return _FINITE, _row_of_first_not_finite(starts, values)
    if shared:
        return _shared_fault(starts, indices, len(indices) if n_features == _ANY_FEATURE else n_features)
    if len(indices) != len(values):
        return _COUNT, 0
    # If there are at least as many entries as features, an array of all features costs less than sorting each context.
    last = np.full(n_features if n_features <= len(indices) else 0, -1)
    for i in range(len(starts) - 1):
        entries = indices[starts[i] : starts[i + 1]]
        fault = _row_fault_by_feature(entries, i, last) if len(last) > 0 else _row_fault(entries, n_features)
        if fault:
            return fault, i
    return 0, 0


@compiled
def _row_fault_by_feature(indices: IntArray, i: int, last: IntArray) -> int:
    """Do the same as `_row_fault` for context i, without sorting; `last` (d,) has each feature's last context."""
    twice = False
    for index in indices:
        if index < 0 or index >= len(last):
            return _RANGE
        twice |= last[index] == i
        last[index] = i
    return _TWICE if twice else 0


@compiled
def _are_starts(starts: IntArray, n_values: int) -> bool:
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != n_values:
        return False
    falls = 0
    for i in range(len(starts) - 1):
        falls += starts[i + 1] < starts[i]
    return falls == 0


@compiled_sum
def _nothing_but_zeros(values: FloatArray) -> float:
    """Return 0 if every number is finite, else NaN."""
    total = 0.0
    for j in range(len(values)):  # only a loop over indices is vectorized
        total += values[j] * 0.0
    return total


@compiled
def _row_of_first_not_finite(starts: IntArray, values: FloatArray) -> int:
    for i in range(len(starts) - 1):
        for value in values[starts[i] : starts[i + 1]]:
            if not np.isfinite(value):
                return i
    return 0


@compiled
def _shared_fault(starts: IntArray, indices: IntArray, d: int) -> tuple[int, int]:
    if len(indices) != d:
        return _SHARED, 0
    for j in range(d):
        if indices[j] != j:
            return _SHARED, 0
    for i in range(len(starts) - 1):
        if starts[i + 1] - starts[i] != d:
            return _SHARED, i
    return 0, 0


@compiled
def _row_fault(indices: IntArray, n_features: int) -> int:
    before, ordered = -1, True
    for index in indices:
        if index < 0 or index >= n_features:
            return _RANGE
        ordered = ordered and index > before
        before = index
    return _TWICE if not ordered and _has_twice(indices) else 0


@compiled
def _has_twice(indices: IntArray) -> bool:
    if len(indices) > _FEW_INDICES:
        sorted_indices = np.sort(indices)
        return bool((sorted_indices[1:] == sorted_indices[:-1]).any())
    twice = 0
    for j in range(len(indices)):
        for k in range(j):
            twice += indices[j] == indices[k]
    return twice > 0


def expect_array(
    name: str, array: npt.NDArray[Any], dtype: np.dtype[Any], ndim: int, shape: tuple[int, ...] | None = None
) -> None:
    """Raise `InvalidArrayError`, with the name, for anything but an array of this dtype, ndim and, if given, shape."""
    if type(array) is not np.ndarray:
        raise InvalidArrayError(f"{name}: must be an array, not {type(array).__name__}")
    if array.dtype != dtype or array.ndim != ndim:
        raise InvalidArrayError(f"{name}: must have {ndim} dimensions of {dtype}, not {array.ndim} of {array.dtype}")
    if shape is not None and array.shape != shape:
        raise InvalidArrayError(f"{name}: must have the shape {shape}, not {array.shape}")


_LARGEST_SUM_ERROR = 1e-9
"""Tolerance for the sum of a distribution: far above rounding errors, far below errors of a wrong distribution."""

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


def check_rounds(rounds: Rounds, learner: Any) -> None:
    """Refuse rounds that cannot result from decisions of this learner, with an `InvalidArrayError`."""
    problem, answer = learner.problem, learner.answer
    if type(rounds) is not Rounds:
        raise InvalidArrayError(f"rounds: must be Rounds, not {type(rounds).__name__}")
    check_contexts(rounds.contexts, problem.n_features)
    n, K, rows = rounds.contexts.n, problem.n_labels, answer in ("label-set", "ranking")
    expect_array("labels", rounds.labels, INT, 2 if rows else 1, (n, K) if rows else (n,))
    expect_array("propensities", rounds.propensities, FLOAT, 1, (n,))
    expect_array("correct", rounds.correct, BOOL, 1, (n,))
    expect_array("true_labels", rounds.true_labels, INT, 2 if rows else 1, (n, K) if rows else (n,))
    expect_array("evidence", rounds.evidence, FLOAT, 2, (n, learner.evidence_size))
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
        _check_rows("labels", rounds.labels, learner)
        _check_rows("true_labels", rounds.true_labels[known], learner)


def check_eligible(eligible: BoolArray, n: int, n_labels: int, answer: AnswerKind) -> None:
    """Refuse anything but booleans (n, K) with a true entry in each row, or (n, 0); structured answers need (n, 0)."""
    expect_array("eligible", eligible, BOOL, 2)
    one_label = answer not in ("label-set", "ranking")
    if eligible.shape not in {(n, 0), (n, n_labels if one_label else 0)}:
        raise InvalidArrayError(f"eligible: must have shape ({n}, {n_labels if one_label else 0}) or ({n}, 0)")
    if eligible.shape[1] and not eligible.any(axis=1).all():
        raise InvalidArrayError("eligible: every row must have a label")


def check_prices(prices: Prices, n: int, candidates: int) -> None:
    """Refuse anything but finite weights (n,) and costs (n, candidates) or (1, candidates), or (0,) and (0, 0)."""
    for name, array, shapes in (
        ("weights", prices.weights, {(n,)}),
        ("costs", prices.costs, {(n, candidates), (1, candidates)}),
    ):
        expect_array(name, array, FLOAT, len(next(iter(shapes))))
        if array.size and array.shape not in shapes:
            raise InvalidArrayError(f"{name}: must have the shape {next(iter(shapes))}, not {array.shape}")
        if not ((array >= 0.0) & (array < np.inf)).all():
            raise InvalidArrayError(f"{name}: must be finite and not negative")
    if len(prices.weights) and not prices.costs.size:
        raise InvalidArrayError("costs: missing")


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


def _check_rows(name: str, rows: IntArray, learner: Any) -> None:
    if not learner.possible(rows).all():
        raise InvalidArrayError(f"{name}: every row must be {learner.possible_named}")


def check_truths(true_labels: IntArray, learner: Any) -> None:
    """Refuse true labels that are not answers of this learner, with an `InvalidArrayError` that names the field."""
    K = learner.problem.n_labels
    if learner.answer in ("label-set", "ranking"):
        expect_array("true_labels", true_labels, INT, 2, (len(true_labels), K))
        _check_rows("true_labels", true_labels, learner)
    else:
        check_labels("true_labels", true_labels, len(true_labels), K)


# --- draws


def check_draw(distributions: FloatArray, uniforms: FloatArray) -> None:
    """Refuse invalid distributions (n, K) and uniforms (n,) outside [0, 1), with an `InvalidArrayError`."""
    expect_array("distributions", distributions, FLOAT, 2)
    expect_array("uniforms", uniforms, FLOAT, 1, (len(distributions),))
    fault, where = _draw_fault(distributions, uniforms)
    if fault:
        raise InvalidArrayError(f"{_DRAW_FAULTS[fault]} (row {where})")


def check_uniforms(uniforms: FloatArray, shape: tuple[int, ...]) -> None:
    """Refuse uniforms of another shape or outside [0, 1), with an `InvalidArrayError`."""
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
    """Refuse anything but n labels from 0 to n_labels - 1, with an `InvalidArrayError` that names the field."""
    expect_array(name, labels, INT, 1, (n,))
    if not ((labels >= 0) & (labels < n_labels)).all():
        raise InvalidArrayError(f"{name}: must be from 0 to {n_labels - 1}")


def check_state(state: State, learner: Any) -> None:
    """Refuse a state of another type, dtype or shape, with an `InvalidStateError` that names the array."""
    if type(state) is not learner.state_type:
        raise InvalidStateError(f"the state is of type {type(state).__name__}, not {learner.state_type.__name__}")
    layouts = _layouts_of(learner)
    for array, (name, layout) in zip(state, layouts.items(), strict=True):
        if not layout.fits(array):
            raise InvalidStateError(f"{name} must be an array of {layout}")
    check_rows(state._asdict(), layouts)


_layouts_of = lru_cache(maxsize=256)(state_layout)
