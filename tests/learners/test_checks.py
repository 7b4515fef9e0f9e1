"""Every learner accepts valid input and refuses the rest by field name, so that no index leaves an array."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.first_order.uniform import Uniform
from learners.algorithms.improper.folklore import Folklore
from learners.answers import draw_answers, is_structured, uniforms_per_answer
from learners.base import (
    AnyLearner,
    Contexts,
    Decisions,
    InvalidArrayError,
    InvalidStateError,
    LearnerError,
    NormPolicy,
    Problem,
    Rounds,
)
from learners.checks import check_contexts
from learners.evaluation.online_to_batch import average_weights, online_to_batch
from learners.evaluation.simulation import simulate
from learners.mathematics.preparation import within_bound
from tests.learners.arrays import as_sparse, bits
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import random_rounds

PROBLEM = Problem(4, 5)


class Bad(NamedTuple):
    name: str
    field: str  # the field that the error must name
    value: Any


ROWS = np.random.default_rng(1).normal(size=(3, 5))

DENSE, SPARSE = Contexts.dense(ROWS), as_sparse(Contexts.dense(ROWS))

"""Three valid contexts of five features."""


def _contexts() -> Iterator[Bad]:
    for bad in (np.nan, np.inf, -np.inf):
        for name, good in (("dense", DENSE), ("sparse", SPARSE)):
            yield Bad(f"{name} {bad}", "contexts.values", _with(good, "values", 7, bad))
    for d in (1, 4, 6, 4000):
        yield Bad(f"dense of {d}", "contexts.indices", Contexts.dense(np.ones((3, d))))
    yield Bad("shared indices in another order", "contexts.indices", _with(DENSE, "indices", 0, 1))
    yield Bad("shared with a shorter row", "contexts.indices", _with(DENSE, "starts", 1, 4))
    for bad_index in (-1, 5, 2**40, -(2**62)):
        yield Bad(f"index {bad_index}", "contexts.indices", _with(SPARSE, "indices", 3, bad_index))
    yield Bad("an index twice", "contexts.indices", _with(SPARSE, "indices", 1, 0))
    yield Bad("an index twice, far apart", "contexts.indices", _with(SPARSE, "indices", 4, 0))
    yield Bad("fewer indices", "contexts.indices", SPARSE._replace(indices=SPARSE.indices[:-1].copy()))
    for name, good in (("dense", DENSE), ("sparse", SPARSE)):
        for position, start in ((0, 1), (0, -5), (1, -5), (1, 11), (1, 2**40), (3, 14), (3, 16), (3, 2**40)):
            yield Bad(f"{name} start {position} at {start}", "contexts.starts", _with(good, "starts", position, start))
        yield Bad(f"{name} without starts", "contexts.starts", good._replace(starts=np.empty(0, np.int64)))
        for field, dtype in (("starts", np.int32), ("starts", float), ("indices", np.int32), ("values", np.float32)):
            array = getattr(good, field).astype(dtype)
            yield Bad(f"{name} {field} of {array.dtype}", f"contexts.{field}", good._replace(**{field: array}))
        for field in ("starts", "indices", "values"):
            square = getattr(good, field)[None]
            yield Bad(f"{name} {field} as a matrix", f"contexts.{field}", good._replace(**{field: square}))
            listed = getattr(good, field).tolist()
            yield Bad(f"{name} {field} as a list", f"contexts.{field}", good._replace(**{field: listed}))
        truthy: Any = 1
        yield Bad(f"{name} shared 1", "contexts.shared", good._replace(shared=truthy))
    yield Bad("a matrix", "contexts", ROWS)
    yield Bad("a plain tuple", "contexts", tuple(DENSE))


def _with(contexts: Contexts, field: str, position: int, value: Any) -> Contexts:
    array = getattr(contexts, field).copy()
    array[position] = value
    return contexts._replace(**{field: array})


CONTEXTS = list(_contexts())

"""Invalid replacements for three contexts of five features."""

EACH_CONTEXT = pytest.mark.parametrize("bad", CONTEXTS, ids=lambda bad: bad.name)


OF_EACH_CLASS = {case.learner: case for case in reversed(IMPLEMENTATIONS)}.values()


@pytest.fixture(params=OF_EACH_CLASS, ids=str)
def learner(request: pytest.FixtureRequest) -> AnyLearner:
    case: Case = request.param
    return case.at(PROBLEM)


def assert_names_field(error: pytest.ExceptionInfo[LearnerError], bad: Bad) -> None:
    assert isinstance(error.value, ValueError)
    assert str(error.value).startswith(f"{bad.field}"), (bad.name, str(error.value))


def some_rounds(learner: AnyLearner) -> Rounds:
    return random_rounds(3, 3, learner)


def test_bad_contexts_are_refused(learner: AnyLearner) -> None:
    state, rounds = learner.init(), some_rounds(learner)
    before = bits(state)
    for bad in CONTEXTS:
        with pytest.raises(InvalidArrayError) as deciding:
            learner.decide(state, bad.value)
        assert_names_field(deciding, bad)
        with pytest.raises(InvalidArrayError) as folding:
            learner.fold(state, rounds._replace(contexts=bad.value))
        assert_names_field(folding, bad)
    assert bits(state) == before


def test_bad_rounds_are_refused(learner: AnyLearner) -> None:
    state = learner.init()
    before = bits(state)
    for bad in rounds_of(learner, some_rounds(learner)):
        with pytest.raises(InvalidArrayError) as folding:
            learner.fold(state, bad.value)
        assert_names_field(folding, bad)
    assert bits(state) == before


def test_good_arrays_are_accepted(learner: AnyLearner) -> None:
    backwards = Contexts(SPARSE.starts, SPARSE.indices[::-1].copy(), SPARSE.values, False)
    rounds = some_rounds(learner)
    for contexts in (DENSE, SPARSE, backwards):
        learner.decide(learner.init(), contexts)
        learner.fold(learner.init(), rounds._replace(contexts=contexts))
    columns: list[Any] = [column[:0] for column in rounds[1:]]
    empty = Rounds(Contexts.dense(np.empty((0, 5))), *columns)
    learner.fold(learner.init(), empty)
    assert learner.decide(learner.init(), empty.contexts).evidence.shape == (0, learner.evidence_size)


def test_foreign_states_are_refused(learner: AnyLearner) -> None:
    rounds, state = some_rounds(learner), learner.init()
    others: list[Any] = [tuple(state), None, ("a",)]
    if not isinstance(learner, Uniform):
        others.append(Uniform(problem=PROBLEM).init())
    for name, array in state._asdict().items():
        wrong = (array[None], array.astype(np.float32), array.tolist(), np.empty((0, 1), array.dtype))
        others += [state._replace(**{name: bad}) for bad in wrong]
    for other in others:
        with pytest.raises(InvalidStateError):
            learner.decide(other, DENSE)
        with pytest.raises(InvalidStateError):
            learner.fold(other, rounds)


def test_draws_refuse_bad_uniforms_and_decisions(learner: AnyLearner) -> None:
    decisions, width = learner.decide(learner.init(), DENSE), uniforms_per_answer(learner)
    good = np.full((3, width), 0.5)
    draw_answers(learner, decisions, good)
    shapes: list[Any] = [good[:2], good[:, :-1], good[:, 0], good.astype(np.float32), [[0.5]] * 3]
    for bad in (*shapes, good + 0.5, -good, good * np.nan):
        with pytest.raises(InvalidArrayError, match="uniforms"):
            draw_answers(learner, decisions, bad)
    if is_structured(learner):
        others: list[Any] = [
            Decisions(decisions.distributions, e) for e in (decisions.evidence[:, :-1], decisions.evidence - 9.0)
        ]
    else:
        d = decisions.distributions
        others = [Decisions(x, decisions.evidence) for x in (d[:, :0], d[0], d[:2], -d, d * np.nan, 2 * d, d.tolist())]
    for other in others:
        with pytest.raises(InvalidArrayError):
            draw_answers(learner, other, good)


@EACH_CONTEXT
def test_simulations_and_averages_refuse_bad_contexts(bad: Bad) -> None:
    truth, uniforms = np.zeros(3, np.int64), np.zeros(3)
    with pytest.raises(InvalidArrayError) as simulating:
        simulate(Uniform(problem=PROBLEM), bad.value, truth, uniforms)
    assert_names_field(simulating, bad)
    with pytest.raises(InvalidArrayError):
        average_weights(FenchelYoung(problem=PROBLEM), bad.value, truth)
    with pytest.raises(InvalidArrayError):
        online_to_batch(Folklore(problem=PROBLEM), bad.value, truth, 1)


@EACH_CONTEXT
@pytest.mark.parametrize("policy", ["unit", "scale", "reject"])
def test_norm_policies_refuse_bad_contexts(bad: Bad, policy: NormPolicy) -> None:
    some_d = bad.name.startswith("dense of") or bad.name in ("index 5", f"index {2**40}")
    if some_d:
        within_bound(bad.value, policy, 1.0)
    else:
        with pytest.raises(InvalidArrayError) as bounding:
            within_bound(bad.value, policy, 1.0)
        assert_names_field(bounding, bad)


@pytest.mark.parametrize(
    ("lengths", "indices", "values"),
    [([2], [0], [1.0, 2.0]), ([2], [0, 1], [1.0]), ([1], [0, 1], [1.0, 2.0]), ([3, -1], [0, 1], [1.0, 2.0]),
     ([1], [0.5], [1.0]), ([1.0], [0], [1.0]), ([[1]], [[0]], [[1.0]]), ([3], [0, 1], [1.0, 2.0])],
)  # fmt: skip
def test_sparse_contexts_refuse_inconsistent_parts(lengths: Any, indices: Any, values: Any) -> None:
    with pytest.raises(InvalidArrayError, match=r"^contexts"):
        Contexts.sparse(lengths, indices, values)


@pytest.mark.parametrize("d", [3, 40, 1000])
def test_faults_of_indices_do_not_depend_on_the_number_of_features(d: int) -> None:
    rng, found = np.random.default_rng(d), set[str]()
    for _ in range(60):
        lengths = rng.integers(0, min(d, 60) + 1, 50)
        rows = [rng.permutation(d)[:n] for n in lengths]
        for _ in range(rng.integers(3)):
            row = rows[rng.integers(50)]
            row[rng.integers(len(row) + 1) :][:1] = rng.choice([-1, d, row[0] if len(row) else 0])
        contexts = Contexts.sparse(lengths, np.concatenate(rows), np.ones(lengths.sum()))
        few, many = (_refusal(contexts, n, d) for n in (d, max(d, contexts.starts[-1] + 1)))
        assert few == many
        found.add(few.partition(" (")[0])
    assert len(found) == 3


def _refusal(contexts: Contexts, n_features: int, d: int) -> str:
    indices = contexts.indices.copy()
    indices[indices == d] = n_features
    try:
        check_contexts(contexts._replace(indices=indices), n_features)
    except InvalidArrayError as error:
        return str(error).partition(", d")[0]
    return ""


def _column(field: str, change: Callable[[Any], Any]) -> Callable[[Rounds], Rounds]:
    return lambda rounds: rounds._replace(**{field: change(getattr(rounds, field))})


def _at(position: int, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        changed = array.copy()
        changed[position] = value
        return changed

    return change


def rounds_of(learner: AnyLearner, good: Rounds) -> Iterator[Bad]:
    K = learner.problem.n_labels
    for field in good._fields[1:]:
        column = getattr(good, field)
        other = np.float32 if column.dtype == np.float64 else np.int32
        for name, change in {
            "shorter": lambda array: array[:-1].copy(),
            "longer": lambda array: np.concatenate([array, array]),
            "none": lambda array: array[:0].copy(),
            "with a dimension more": lambda array: array[..., None].copy(),
            "a number": lambda array: array.ravel()[:1].sum(),
            "a list": lambda array: array.tolist(),
        }.items():
            yield Bad(f"{field} {name}", field, _column(field, change)(good))
        yield Bad(f"{field} of {np.dtype(other)}", field, good._replace(**{field: column.astype(other)}))
    numbers: dict[str, list[Any]] = {
        "labels": [-1, K, K + 1, 2**40, -(2**62)],
        "true_labels": [-2, K, K + 1, 2**40, -(2**62)],
        "propensities": [-1e-300, -0.5, 1.001, np.nan, np.inf] + ([] if is_structured(learner) else [0.0]),
        "residual_uniforms": [-1e-9, 1.0, np.nan, np.inf],
        "evidence": [np.nan, np.inf, -np.inf] if learner.evidence_size else [],
    }
    for field, values in numbers.items():
        for value in values:
            yield Bad(f"{field} {value}", field, _column(field, _at(1, value))(good))
    if learner.evidence_size:
        yield Bad("evidence narrower", "evidence", good._replace(evidence=good.evidence[:, :-1].copy()))
    yield Bad("a plain tuple", "rounds", tuple(good))
    for name, contexts in (("more", Contexts.dense(np.ones((4, 5)))), ("fewer", Contexts.dense(np.ones((2, 5))))):
        yield Bad(f"{name} contexts", "labels", good._replace(contexts=contexts))
