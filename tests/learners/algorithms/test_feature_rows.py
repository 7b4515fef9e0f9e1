"""The table from features to rows: order of first occurrence, growth, limits, and corrupt arrays."""

import numpy as np
import pytest

from learners.algorithms.regression.fastcb import FastCb, FastCbState
from learners.algorithms.regression.growing_learner import ADD, ADD_OR_IGNORE, READ, FeatureRows, to_rows
from learners.base import Contexts, IntArray, InvalidStateError, Problem
from learners.codec import decode_state, encode_state
from learners.evaluation.simulation import simulate
from learners.layouts import FEWEST_ROWS, new_state_bytes, size_in_bytes, state_bytes
from tests.learners.arrays import bits

MANY = 2**18


def table(rows: int) -> FeatureRows:
    return FeatureRows(np.zeros(rows, np.int64), np.zeros(2 * rows, np.int64), np.zeros(2, np.int64))


def converted(rows: FeatureRows, features: IntArray, mode: int) -> tuple[int, IntArray]:
    contexts = Contexts.sparse([len(features)], features, np.ones(len(features)))
    room = Contexts(np.zeros(2, np.int64), np.empty(len(features), np.int64), np.empty(len(features)), False)
    done = to_rows(rows, contexts, room, 0, mode)
    return done, room.indices[: room.starts[1]]


@pytest.mark.parametrize("largest", [200, MANY, 2**62])
def test_rows_are_in_order_of_first_occurrence(largest: int) -> None:
    rng = np.random.default_rng(1)
    rows, known = table(150), list[int]()
    while len(known) < 150:
        features = rng.choice(largest, 4) if largest > 10**6 else rng.permutation(largest)[:4]
        known += [int(each) for each in features if each not in known][: 150 - len(known)]
        if len(known) < 150:
            assert converted(rows, features, ADD)[1].tolist() == [known.index(each) for each in features]
    assert converted(rows, np.array(known), ADD_OR_IGNORE)[1].tolist() == list(range(150))


def test_full_table_stops_or_ignores() -> None:
    rows = table(3)
    converted(rows, np.array([7, 8]), ADD)
    assert converted(rows, np.array([7, 1, 2, 4]), ADD)[0] == 0
    done, found = converted(rows, np.array([7, 1, 2, 4]), ADD_OR_IGNORE)
    assert (done, found.tolist()) == (1, [0, 2])
    assert rows.counts.tolist() == [3, 2]


def test_corrupt_table_stays_inside_its_arrays() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        n = int(rng.integers(0, 6))
        numbers = rng.choice([-(2**63), -1, 0, 1, 2, 5, 7, 2**62], size=3 * n + 2)
        rows = FeatureRows(numbers[:n].copy(), numbers[n : 3 * n].copy(), numbers[3 * n :].copy())
        for mode in (READ, ADD, ADD_OR_IGNORE):
            found = converted(rows, np.array([0, 5, 1, 2**40]), mode)[1]
            assert ((found >= 0) & (found < n)).all()


def test_features_chosen_to_collide_cost_little() -> None:
    d, rows = 2**22, table(2**16)
    first = (np.arange(d, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    hostile = np.argsort(first)[: 2**10].astype(np.int64)
    hostile = hostile[hostile >= 2**10]  # others may be found at their own place
    converted(rows, hostile, ADD_OR_IGNORE)
    assert rows.counts.sum() == len(hostile)
    assert 100 < rows.counts[0] < 256
    assert converted(rows, np.arange(5000, 5100), ADD_OR_IGNORE)[1].tolist() == list(
        range(rows.counts[0] - 100, rows.counts[0])
    )


def sparse_stream(n: int, n_features: int) -> tuple[Contexts, IntArray]:
    rng = np.random.default_rng(4)
    known = rng.permutation(MANY)[:n_features]
    indices = np.array([rng.permutation(known)[:3] for _ in range(n)]).ravel()
    return Contexts.sparse(np.full(n, 3), indices, rng.normal(size=3 * n)), indices[::3] % 4


def played(learner: FastCb, n: int, n_features: int) -> FastCbState:
    contexts, labels = sparse_stream(n, n_features)
    state: FastCbState = simulate(learner, contexts, labels, np.random.default_rng(5).random(n)).state
    return state


def test_state_grows_with_the_features_that_occur() -> None:
    learner = FastCb(problem=Problem(10, MANY))
    assert size_in_bytes(learner.init()) == new_state_bytes(learner) < 12_000
    state = played(learner, 400, 100)
    assert state.row_counts.tolist() == [100, 0]
    assert len(state.features) == 128
    numbers = 128 * (4 * 10 + 12) + 80 * (80 + 2 * 10 + 1)  # for each row, and for the first 80
    assert size_in_bytes(state) == pytest.approx(8 * numbers, abs=600)
    assert bits(decode_state(learner, encode_state(learner, state))) == bits(state)
    assert learner.warnings(state) == []


def test_features_beyond_the_limit_are_ignored_and_reported() -> None:
    learner = FastCb(problem=Problem(10, MANY), max_features=50)
    state = played(learner, 400, 100)
    assert state.row_counts[0] == len(state.features) == 50
    assert state.row_counts[1] > 100
    (warning,) = learner.warnings(state)
    assert warning.startswith("max_features: 50 of 50 rows are in use")
    assert state_bytes(learner) == size_in_bytes(state)


def test_growth_does_not_depend_on_batches() -> None:
    learner, n = FastCb(problem=Problem(4, MANY)), 120
    contexts, labels = sparse_stream(n, 90)
    uniforms = np.random.default_rng(6).random(n)
    together = simulate(learner, contexts, labels, uniforms)
    state = learner.init()
    for t in range(n):
        state = simulate(learner, contexts.rows(t, t + 1), labels[t : t + 1], uniforms[t : t + 1], state).state
        assert len(state.features) >= FEWEST_ROWS
    assert bits(state) == bits(together.state)


def test_arrays_of_different_lengths_are_refused() -> None:
    learner = FastCb(problem=Problem(4, MANY))
    state = played(learner, 60, 40)
    uneven = state._replace(scales=state.scales[:-1].copy())
    with pytest.raises(InvalidStateError, match="scales"):
        learner.decide(uneven, Contexts.sparse([1], [0], [1.0]))
    with pytest.raises(InvalidStateError, match="scales"):
        decode_state(learner, encode_state(learner, uneven))


def test_reading_adds_nothing() -> None:
    """A prediction leaves out features without a row, and leaves the table as it is."""
    rows = table(8)
    converted(rows, np.array([5, 3]), ADD)
    before = bits(rows)
    assert converted(rows, np.array([3, 4, 5]), READ)[1].tolist() == [1, 0]
    assert bits(rows) == before
