"""Validates what the file reader does not check in a model's file: changes, import positions, statistics, state."""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pydantic

from learners.answers import draw_answers_unchecked, is_structured, uniforms_per_answer
from learners.base import AnyLearner, Contexts, Decisions, FloatArray, Rounds, State
from learners.codec import decode_state
from learners.mathematics.pacing import is_possible
from service.error_messages.values import quoted, shown
from service.errors import ModelFileError, NewerVersionError, TooManyChangesError
from service.json_values import JsonObject
from service.lifecycle.model_file import LATEST, MOST_KEY_ID, SHADOW, ExportedImport, as_file_error
from service.models.changes import checked_policies, read_change
from service.registry.changing import MOST_CHANGES, MOST_COPIES
from service.replicas.guarded_fold import is_finite
from service.replicas.statistics import SLOTS, RoundStatistics, decode_statistics
from service.schemas.models import LONGEST_WINDOW, SHORTEST_WINDOW
from service.store.values import ImportedSource

_LARGEST, _LARGEST_COUNT = 1e300, 2**53  # maximum number, and maximum integer, in statistics
_LARGEST_IN_STATE = 1e60  # maximum in a state: in learners, products of larger numbers may overflow
_CONTEXTS, _NONZEROS, _UNIFORM = 4, 32, 0.4  # of a trial: contexts, non-zeros of each, and uniform number
_AT_MOST_ROUNDS = (
    *("rounds", "correct", "reward", "expired", "abstained", "weighed", "answered", "answered_reward"),
    *("answered_squares", "holdout_rounds", "holdout_reward", "holdout_squares"),
)
"""Statistics to which each round adds at most 1."""
_OF_STATISTICS = pydantic.TypeAdapter(RoundStatistics)


def checked_history(changes: Sequence[JsonObject]) -> tuple[str, ...]:
    """Return a file's changes in stored form.

    Raises `ModelFileError` if one is invalid, `NewerFileError` if a newer version wrote it, or `TooManyChangesError` if
    there are too many.
    """
    if len(changes) > (most := MOST_CHANGES + MOST_COPIES):
        raise TooManyChangesError(f"got {len(changes):,} changes; a copy of a model may have at most {most:,}")
    return tuple(_checked(number, change) for number, change in enumerate(changes, 1))


def _checked(number: int, given: JsonObject) -> str:
    try:
        change = read_change(json.dumps(given))
        checked_policies(change.policies)
    except pydantic.ValidationError as error:
        unknown = {each["type"] for each in error.errors(include_url=False)} <= {"extra_forbidden", "literal_error"}
        detail = f"change {number} has fields or values that this version does not know"
        raise as_file_error(NewerVersionError(detail) if unknown else ValueError(detail)) from error
    if not 0 <= change.at <= LATEST or len(change.by or "") > MOST_KEY_ID:
        wrong = f"{shown(change.at)}, {quoted(change.by or '')}"
        raise ModelFileError(f"change {number} has an invalid time or key: {wrong}")
    return change.encode()


def checked_imports(imports: Sequence[ExportedImport]) -> tuple[ImportedSource, ...]:
    """Return the sources of imported rounds in stored form; raise `ModelFileError` if one occurs twice."""
    found = {each.source: ImportedSource(each.source, each.position, each.at) for each in imports}
    if len(found) < len(imports):
        raise ModelFileError("a source of imported rounds occurs twice")
    return tuple(found.values())


def checked_statistics(encoded: bytes, rounds: int) -> bytes:
    """Check the statistics in a file, and encode them again.

    Raises `ModelFileError` if a type, count or number is wrong, or `NewerFileError` if a newer version wrote them.
    """
    try:
        statistics = decode_statistics(encoded)
        _OF_STATISTICS.validate_json(statistics.encode(), strict=True)  # strict: `true` does not pass for 1
    except NewerVersionError as error:
        raise as_file_error(error) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError("its statistics cannot be read") from error
    numbers = list(_numbers(dataclasses.asdict(statistics)))
    if max(getattr(statistics, name) for name in _AT_MOST_ROUNDS) > rounds or not all(
        0 <= n <= _LARGEST for n in numbers
    ):
        raise ModelFileError("its statistics have more rounds than the model, or a number out of range")
    if not SHORTEST_WINDOW <= statistics.slot_seconds * SLOTS <= LONGEST_WINDOW:
        raise ModelFileError("its statistics have time slots whose length fits no allowed window")
    return statistics.encode()


def _numbers(value: Any) -> Any:
    match value:
        case dict():
            return _numbers(list(value.values()))
        case list() | tuple():
            return [each for item in value for each in _numbers(item)]
        case bool() | None | str():
            return []
        case int():
            return [value if value <= _LARGEST_COUNT else math.inf]  # the caller refuses infinity
        case _:
            return [value if math.isfinite(value) else math.inf]


def foreign_state(learner: AnyLearner, data: memoryview, *, decides: bool) -> State:
    """Return the state in a file. Raises `InvalidStateError`, or `ModelFileError` if its numbers are too large.

    With `decides`, also raise `ModelFileError` unless the learner can decide and learn with a copy of the state. A
    learner of actions cannot be tried like this, because it decides among the actions of a request.
    """
    state = decode_state(learner, data, others=SHADOW)
    for name, array in state._asdict().items():
        if array.dtype.kind == "f" and max(array.max(initial=0.0), -array.min(initial=0.0)) > _LARGEST_IN_STATE:
            raise ModelFileError(f"its state: {name} contains numbers above {_LARGEST_IN_STATE:g}")
    pacing = state._asdict().get("pacing")
    if pacing is not None and not is_possible(pacing):
        raise ModelFileError("its state: pacing contains a negative lag, number of rounds, budget or square")
    if decides and not _works(learner, type(state)(*(array.copy() for array in state))):
        raise ModelFileError("its state: the learner cannot decide and learn with these numbers")
    return state


def _works(learner: AnyLearner, state: State) -> bool:
    """Check whether the learner can decide and learn in some contexts. May change the state."""
    contexts = _contexts(learner)
    try:
        with np.errstate(all="ignore"):
            decisions = learner.decide_unchecked(state, contexts)
            if not _is_sound(learner, decisions):
                return False
            rounds = _rounds(learner, contexts, decisions)
            return is_finite(learner.fold_unchecked(state, rounds))
    except (ArithmeticError, ValueError, IndexError):  # from corrupt numbers, in code that is not compiled
        return False


def _contexts(learner: AnyLearner) -> Contexts:
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
    """Return rounds with drawn answers. If the answers are single labels, every second one is wrong."""
    uniforms = np.full((contexts.n, uniforms_per_answer(learner)), _UNIFORM)
    labels, propensities, residual_uniforms = draw_answers_unchecked(learner, decisions, uniforms)
    truths, correct = labels.copy(), np.ones(contexts.n, np.bool_)
    if not is_structured(learner):
        truths[::2] = (labels[::2] + 1) % learner.problem.n_labels
        correct[::2] = False
    return Rounds.of_bits(contexts, labels, propensities, correct, truths, decisions.evidence, residual_uniforms)
