"""Every learner accepts valid input and refuses the rest by field name, so that no index leaves an array."""

from typing import Any

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
from learners.context_checks import check_contexts
from learners.evaluation.folklore_to_batch import online_to_batch
from learners.evaluation.online_to_batch import average_weights
from learners.evaluation.simulation import simulate
from learners.mathematics.exploration import draw
from learners.mathematics.norms import within_bound
from tests.learners.arrays import bits
from tests.learners.bad_arrays import CONTEXTS, DENSE, SPARSE, Bad, rounds_of
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import random_rounds

PROBLEM = Problem(4, 5)

EACH_CONTEXT = pytest.mark.parametrize("bad", CONTEXTS, ids=lambda bad: bad.name)


@pytest.fixture(params=IMPLEMENTATIONS, ids=str)
def learner(request: pytest.FixtureRequest) -> AnyLearner:
    """Return each implementation in turn."""
    case: Case = request.param
    return case.at(PROBLEM)


def assert_names_field(error: pytest.ExceptionInfo[LearnerError], bad: Bad) -> None:
    """Check that the error is a `ValueError` that starts with the field's name."""
    assert isinstance(error.value, ValueError)
    assert str(error.value).startswith(f"{bad.field}"), (bad.name, str(error.value))


def some_rounds(learner: AnyLearner) -> Rounds:
    """Return three valid rounds."""
    return random_rounds(3, 3, learner)


# --- every learner


def test_bad_contexts_are_refused(learner: AnyLearner) -> None:
    """`decide` and `fold` refuse each kind of bad contexts by field name, and do not change the state."""
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
    """`fold` refuses each kind of bad rounds by field name, and does not change the state."""
    state = learner.init()
    before = bits(state)
    for bad in rounds_of(learner, some_rounds(learner)):
        with pytest.raises(InvalidArrayError) as folding:
            learner.fold(state, bad.value)
        assert_names_field(folding, bad)
    assert bits(state) == before


def test_good_arrays_are_accepted(learner: AnyLearner) -> None:
    """Valid contexts pass: dense, sparse, with indices in any order, and empty."""
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
    """States of another learner or problem, or with a wrong array, are refused: their shapes bound the indices."""
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
    """Uniforms of a wrong number, shape or range are refused, and so are decisions of a wrong shape."""
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


# --- other functions


@EACH_CONTEXT
def test_simulations_and_averages_refuse_bad_contexts(bad: Bad) -> None:
    """`simulate`, `average_weights` and `online_to_batch` refuse bad contexts."""
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
    """A norm policy refuses contexts that are invalid for every number of features."""
    some_d = bad.name.startswith("dense of") or bad.name in ("index 5", f"index {2**40}")
    if some_d:
        within_bound(bad.value, policy, 1.0)
    else:
        with pytest.raises(InvalidArrayError) as bounding:
            within_bound(bad.value, policy, 1.0)
        assert_names_field(bounding, bad)


@pytest.mark.parametrize(
    ("distributions", "uniforms"),
    [
        (np.full((2, 2), 0.5), np.full(3, 0.5)),
        (np.full((2, 2), 0.5), np.full((2, 1), 0.5)),
        (np.empty((2, 0)), np.full(2, 0.5)),
        (np.full((2, 2), 0.6), np.full(2, 0.5)),
        (np.array([[1.5, -0.5]]), np.full(1, 0.5)),
        (np.full((1, 2), np.nan), np.full(1, 0.5)),
        (np.full((1, 2), 0.5), np.full(1, 1.0)),
        (np.full((1, 2), 0.5), np.full(1, np.nan)),
        ([[0.5, 0.5]], np.full(1, 0.5)),
    ],
)
def test_draws_refuse_bad_distributions_and_uniforms(distributions: Any, uniforms: Any) -> None:
    """`draw` refuses empty distributions, invalid probabilities, and missing or invalid uniforms."""
    with pytest.raises(InvalidArrayError, match=r"^(distributions|uniforms)"):
        draw(distributions, uniforms)


@pytest.mark.parametrize(
    ("lengths", "indices", "values"),
    [([2], [0], [1.0, 2.0]), ([2], [0, 1], [1.0]), ([1], [0, 1], [1.0, 2.0]), ([3, -1], [0, 1], [1.0, 2.0]),
     ([1], [0.5], [1.0]), ([1.0], [0], [1.0]), ([[1]], [[0]], [[1.0]]), ([3], [0, 1], [1.0, 2.0])],
)  # fmt: skip
def test_sparse_contexts_refuse_inconsistent_parts(lengths: Any, indices: Any, values: Any) -> None:
    """The lengths must be integers that add up to the number of entries."""
    with pytest.raises(InvalidArrayError, match=r"^contexts"):
        Contexts.sparse(lengths, indices, values)


def test_dense_contexts_take_a_matrix_or_one_row() -> None:
    """A matrix or a single row is accepted, an array of three dimensions is not."""
    assert Contexts.dense([1.0, 2.0]).n == 1
    with pytest.raises(InvalidArrayError, match=r"^contexts"):
        Contexts.dense(np.zeros((2, 2, 2)))


def test_duplicate_indices_are_found_in_long_rows() -> None:
    """An index that appears twice in a long, unsorted row is found."""
    indices = np.random.default_rng(1).permutation(1000)
    learner = Uniform(problem=Problem(2, 1000))
    learner.decide(learner.init(), Contexts.sparse([1000], indices, np.ones(1000)))
    indices[17] = indices[801]
    with pytest.raises(InvalidArrayError, match=r"contexts\.indices"):
        learner.decide(learner.init(), Contexts.sparse([1000], indices, np.ones(1000)))


@pytest.mark.parametrize("d", [3, 40, 1000])
def test_faults_of_indices_do_not_depend_on_the_number_of_features(d: int) -> None:
    """The same first fault is found with an array of all features, and by sorting where there are too many."""
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
    """Return the reason why contexts are refused for n_features features, as if there were d of them."""
    indices = contexts.indices.copy()
    indices[indices == d] = n_features
    try:
        check_contexts(contexts._replace(indices=indices), n_features)
    except InvalidArrayError as error:
        return str(error).partition(", d")[0]
    return ""
