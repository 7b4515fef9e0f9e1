"""The laws of every learner, whatever its algorithm: `IMPLEMENTATIONS` x laws."""

import contextlib
import dataclasses
import json
import math
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pydantic
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from learners import codec
from learners.answers import answer_kind, draw_answers, is_structured, uniforms_per_answer
from learners.base import (
    NO_LABEL,
    AnyLearner,
    Contexts,
    Decisions,
    FloatArray,
    IntArray,
    InvalidStateError,
    Layout,
    Problem,
    Rounds,
    state_bytes,
    state_layout,
)
from learners.errors import StateTooLargeError
from learners.new_models import check_state_size
from learners.registry import ALL_LEARNERS, LEARNERS, RECOMMENDED, STRUCTURED_LEARNERS
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import (
    LAWS,
    World,
    as_sparse,
    assert_close,
    bits,
    copied,
    in_order,
    is_finite,
    join,
    make_world,
    matrix,
    other_answers,
    pack,
    pick,
    play,
    random_rounds,
    same_rows,
    unpacked,
    world_for,
)

PROBLEM = Problem(4, 5)
N = 300


class Life(NamedTuple):
    """A learner that has lived through a small world."""

    case: Case
    learner: AnyLearner
    rounds: Rounds
    distributions: FloatArray  # (N, K), as decided one at a time
    state: Any  # after all rounds


@pytest.fixture(scope="module", params=IMPLEMENTATIONS, ids=str)
def life(request: pytest.FixtureRequest) -> Life:
    """Each implementation in turn, with its history."""
    case: Case = request.param
    learner = case.at(PROBLEM)
    steps = list(play(learner, world_for(learner, 7, N)))
    return Life(case, learner, join(steps), np.array([s.distribution for s in steps]), steps[-1].after)


def has_layout(learner: AnyLearner, state: Any) -> bool:
    """Whether the arrays of a state have the dtypes, shapes and least entries that stand beside its fields."""
    layout, arrays = state_layout(learner), state._asdict()
    return arrays.keys() == layout.keys() and all(
        (field.dtype, field.shape) == layout[name][:2]
        and ((field >= layout[name].least) & (field <= layout[name].most)).all()
        for name, field in arrays.items()
    )


def decide_rounds(learner: AnyLearner, state: Any, contexts: Contexts, seed: int) -> tuple[Decisions, Rounds]:
    """Decisions from one state on many contexts, and rounds whose label 0 or 1 is right at random."""
    rng = np.random.default_rng(seed)
    decisions = learner.decide(state, contexts)
    uniforms = rng.random((contexts.n, uniforms_per_answer(learner)))
    labels, propensities, residual_uniforms = draw_answers(learner, decisions, uniforms)
    truth = np.where(rng.random(contexts.n) < 0.7, labels.T, other_answers(learner, labels).T).T
    correct = same_rows(labels, truth)
    return decisions, Rounds(contexts, labels, propensities, correct, truth, decisions.evidence, residual_uniforms)


# --- the list


def test_every_registered_learner_is_held_to_the_laws() -> None:
    """The list of implementations covers the registry, which names each learner as users do."""
    assert {case.learner for case in IMPLEMENTATIONS} == set(ALL_LEARNERS.values())
    assert all(cls.algorithm == name for name, cls in ALL_LEARNERS.items())
    assert not any(is_structured(cls) for cls in LEARNERS.values())
    assert all(is_structured(cls) for cls in STRUCTURED_LEARNERS.values())
    assert RECOMMENDED in LEARNERS.values()


# --- states


def test_state_has_its_declared_layout(life: Life) -> None:
    """Each state array has the dtype, shape and least entry that stand beside its field, before and after folds."""
    for state in (life.learner.init(), life.state):
        assert type(state) is life.learner.state_type
        assert has_layout(life.learner, state)


def test_state_bytes_is_what_a_state_takes(life: Life) -> None:
    """The size told without making a state is the size of a state."""
    assert state_bytes(life.learner) == sum(field.nbytes for field in life.state)


def test_too_large_a_state_is_refused_naming_bytes_and_alternative(life: Life) -> None:
    """A state one byte over the limit is refused with its size and what to use instead."""
    needed = state_bytes(life.learner)
    check_state_size(life.learner, needed)
    with pytest.raises(StateTooLargeError, match=f"{needed:,} bytes.*; use {life.learner.smaller} instead"):
        check_state_size(life.learner, needed - 1)


def test_init_gives_a_fresh_state_each_time(life: Life) -> None:
    """Two first states are equal to the bit and share no memory."""
    one, two = life.learner.init(), life.learner.init()
    assert bits(one) == bits(two)
    assert not any(np.shares_memory(a, b) for a, b in zip(one, two, strict=True))


# --- decisions


def test_decisions_are_distributions(life: Life) -> None:
    """Probabilities are non-negative, sum to 1, and leave each label its share of the least exploration."""
    K = life.learner.problem.n_labels
    if is_structured(life.learner):
        return
    for distributions in (life.distributions, life.learner.decide(life.state, life.rounds.contexts).distributions):
        assert distributions.shape == (N, K)
        assert distributions.dtype == np.float64
        assert distributions.min() >= life.case.least_exploration / K * (1 - 1e-12)
        np.testing.assert_allclose(distributions.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_drawn_answers_are_answers(life: Life) -> None:
    """Labels are labels, sets are zeros and ones, rankings have each label once; their propensities are positive."""
    K, labels = life.learner.problem.n_labels, life.rounds.labels
    assert labels.dtype == np.int64
    match answer_kind(life.learner):
        case "ranking":
            assert (np.sort(labels, axis=1) == np.arange(K)).all()
        case "label-set":
            assert (labels.shape, set(labels.ravel().tolist()) | {0, 1}) == ((N, K), {0, 1})
        case _:
            assert (labels.shape, labels.min() >= 0, labels.max() < K) == ((N,), True, True)
    assert life.rounds.propensities.min() > 0.0
    assert life.rounds.propensities.max() <= 1.0 + 1e-12


def test_evidence_has_the_declared_size(life: Life) -> None:
    """Evidence is (n, evidence_size) floats, for any n, none included."""
    for n in (0, 1, 3):
        contexts = Contexts.dense(matrix(life.rounds.contexts)[:n])
        decisions = life.learner.decide(life.state, contexts)
        assert decisions.evidence.shape == (n, life.learner.evidence_size)
        assert decisions.evidence.dtype == np.float64
        told = 0 if answer_kind(life.learner) == "ranking" else life.learner.problem.n_labels
        assert decisions.distributions.shape == (n, told)


def test_decide_leaves_state_and_contexts_as_they_are(life: Life) -> None:
    """Deciding changes no bit of the state or of the contexts."""
    before = bits((life.state, life.rounds.contexts))
    life.learner.decide(life.state, life.rounds.contexts)
    assert bits((life.state, life.rounds.contexts)) == before


def test_decisions_do_not_depend_on_their_batch(life: Life) -> None:
    """Deciding n contexts at once is deciding them one by one, to the bit."""
    rows = matrix(life.rounds.contexts)[:20]
    apply_to_valid = life.learner.decide(life.state, Contexts.dense(rows))
    alone = [life.learner.decide(life.state, Contexts.dense(row)) for row in rows]
    assert bits(apply_to_valid) == bits([np.concatenate(column) for column in zip(*alone, strict=True)])


# --- folds


@pytest.mark.parametrize("size", [1, 7, N])
def test_fold_of_many_is_many_folds_of_one(life: Life, size: int) -> None:
    """However the log is cut, the state is the same to the bit, and it is the state of the live run."""
    state = life.learner.init()
    for start in range(0, N, size):
        state = life.learner.fold(state, pick(life.rounds, range(start, min(N, start + size))))
        assert type(state) is life.learner.state_type
    assert bits(state) == bits(life.state)


def test_replay_gives_the_same_bits(life: Life) -> None:
    """Folding the same rounds into copies of one state gives the same state, and leaves the rounds alone."""
    before = bits(life.rounds)
    one = life.learner.fold(copied(life.state), life.rounds)
    two = life.learner.fold(copied(life.state), life.rounds)
    assert bits(one) == bits(two)
    assert bits(life.rounds) == before


def test_fold_of_nothing_changes_nothing(life: Life) -> None:
    """No rounds, no change."""
    assert bits(life.learner.fold(copied(life.state), pick(life.rounds, []))) == bits(life.state)


def test_fold_counts_rounds(life: Life) -> None:
    """Every round counts once, also the ones that teach nothing."""
    assert int(life.state.rounds) == N


def test_state_depends_on_the_order_of_the_log_alone(life: Life) -> None:
    """Workers that see late, shuffled rounds in batches of their own, deciding in between, end in the same bits."""
    rng = np.random.default_rng(3)
    log = pick(life.rounds, np.argsort(np.arange(N) + rng.exponential(40.0, N)))
    states = []
    for rate in (1.0, 0.3, 0.05):
        state, cuts = life.learner.init(), np.flatnonzero(rng.random(N) < rate)
        for part in np.split(np.arange(N), cuts):
            rounds = pick(log, part)
            life.learner.decide(state, rounds.contexts)
            state = life.learner.fold(state, rounds)
        states.append(bits(state))
    assert states[0] == states[1] == states[2]


def test_bandit_learner_sees_only_the_bit(life: Life) -> None:
    """Other true labels, or none, behind the same bits give the same state, to the bit."""
    if life.learner.needs_true_label:
        return
    K, rounds = life.learner.problem.n_labels, life.rounds
    others = np.where(rounds.correct, rounds.labels, (rounds.labels + 1) % K)
    assert (others != rounds.true_labels).any()
    for truth in (others, np.full(N, NO_LABEL)):
        assert bits(life.learner.fold(life.learner.init(), rounds._replace(true_labels=truth))) == bits(life.state)


def test_full_information_learner_sees_only_the_true_label(life: Life) -> None:
    """Where the true label is known, the label served and its propensity change no bit of the state."""
    if not life.learner.needs_true_label:
        return
    wrong = life.rounds._replace(
        labels=other_answers(life.learner, life.rounds.true_labels),
        propensities=np.full(N, 0.1),
        correct=np.zeros(N, dtype=np.bool_),
    )
    assert bits(life.learner.fold(life.learner.init(), wrong)) == bits(life.state)


# --- contexts


@pytest.mark.parametrize("bound", [1e-6, 1.0, 1e6])
def test_extreme_contexts_keep_the_state_finite(life: Life, bound: float) -> None:
    """Zero, one-hot and largest legal contexts lead to finite states and proper distributions, or are refused."""
    problem = Problem(4, 5, bound)
    try:
        learner = life.case.at(problem)
        world = world_for(learner, 11, 155)
    except pydantic.ValidationError:
        return
    some = world.contexts[:120]
    norms = np.linalg.norm(some, axis=1, keepdims=True)
    x = np.concatenate([np.zeros((5, 5)), np.tile(np.eye(5) * bound, (6, 1)), some * bound / norms])
    rng = np.random.default_rng(5)
    if not is_structured(learner):
        world = World(x, rng.integers(0, learner.problem.n_labels, len(x)), rng.random(len(x)))
    for step in play(learner, world._replace(contexts=x)):
        assert is_finite(step.after)
        assert is_structured(learner) or abs(step.distribution.sum() - 1.0) <= 1e-12
        assert step.distribution.min(initial=0.0) >= 0.0
        assert 0.0 < step.round.propensities[0] <= 1.0 + 1e-12


def test_sparse_contexts_are_the_dense_ones(life: Life) -> None:
    """The same rows, dense or sparse, give the same decisions and the same state, up to rounding."""
    rows = matrix(life.rounds.contexts).copy()
    rows[np.random.default_rng(2).random(rows.shape) < 0.5] = 0.0
    dense, sparse = Contexts.dense(rows), as_sparse(Contexts.dense(rows))
    decisions, rounds = decide_rounds(life.learner, life.state, dense, seed=4)
    same = life.learner.decide(life.state, sparse)
    assert_close(tuple(same), tuple(decisions), 1e-12)
    from_sparse = rounds._replace(contexts=sparse, evidence=same.evidence)
    one, two = (life.learner.fold(copied(life.state), r) for r in (from_sparse, rounds))
    assert_close(one, two, 1e-12)


# --- symmetry


def reordered(packed: FloatArray, order: IntArray) -> FloatArray:
    """A packed triangle with its rows and columns in another order."""
    return pack(unpacked(packed)[np.ix_(order, order)])


def permuted(learner: AnyLearner, state: Any, labels: IntArray, features: IntArray) -> Any:
    """The state with its labels and features in another order, by the symbols of its layout."""
    order = {
        "K": labels,
        "n_scores": scores_in_order(learner, labels),
        "d": features,
        "n": (labels[:, None] * learner.problem.n_features + features).ravel(),
    }
    triangles = {"P": order["n"], "p": features}

    def one(array: Any, layout: Layout) -> Any:
        for axis, symbol in enumerate(layout.shape):
            if symbol in triangles:
                array = np.apply_along_axis(reordered, axis, array, triangles[symbol])
            elif symbol in order:
                array = array.take(order[symbol], axis)
        if layout.index_of in order:
            array = np.argsort(order[layout.index_of])[array]
        return np.array(array, order="C")

    hints = get_type_hints(learner.state_type, include_extras=True)
    return type(state)(**{name: one(getattr(state, name), hint.__metadata__[0]) for name, hint in hints.items()})


def scores_in_order(learner: Any, labels: IntArray) -> IntArray:
    """Where scores stand with the labels in another order: one for each label, or one for each label and place."""
    K, n_scores = learner.problem.n_labels, getattr(learner, "n_scores", 0)
    return (labels[:, None] * K + np.arange(K)).ravel() if n_scores == K * K else labels[:n_scores]


def renamed(learner: AnyLearner, answers: IntArray, labels: IntArray) -> IntArray:
    """Answers with the labels in another order."""
    return answers[:, labels] if answer_kind(learner) == "label-set" else np.argsort(labels)[answers]


@pytest.mark.parametrize(
    ("labels", "features"),
    [([2, 0, 3, 1], [0, 1, 2, 3, 4]), ([0, 1, 2, 3], [3, 0, 4, 1, 2])],
    ids=["labels", "features"],
)
def test_names_do_not_matter(life: Life, labels: list[int], features: list[int]) -> None:
    """With labels or features in another order, decisions and states are the same in that order (no ties).

    Labels with a role of their own stay where they are.
    """
    learner, f = life.learner, np.array(features)
    k = np.array(labels) if life.case.n_labels is None else np.arange(life.case.n_labels)
    x = make_world(23, 40, learner.problem).contexts
    decisions, rounds = decide_rounds(learner, life.state, Contexts.dense(x), seed=6)
    twin_state, twin_x = permuted(learner, life.state, k, f), Contexts.dense(x[:, f])
    twin = learner.decide(twin_state, twin_x)
    if answer_kind(learner) != "ranking":
        assert_close(twin.distributions, decisions.distributions[:, k], 1e-9)
    twin_rounds = rounds._replace(
        contexts=twin_x,
        evidence=twin.evidence,
        labels=renamed(learner, rounds.labels, k),
        true_labels=renamed(learner, rounds.true_labels, k),
    )
    expected = permuted(learner, learner.fold(copied(life.state), rounds), k, f)
    assert_close(in_order(learner.fold(twin_state, twin_rounds)), in_order(expected), 1e-9)


# --- states as bytes


def test_state_survives_encoding_to_the_bit(life: Life) -> None:
    """What is decoded is what was encoded, to the bit, in arrays of its own that can be folded into."""
    data = codec.encode_state(life.learner, life.state)
    state = codec.decode_state(life.learner, data)
    assert type(state) is life.learner.state_type
    assert bits(state) == bits(life.state)
    assert all(field.flags.owndata and field.flags.c_contiguous and field.flags.writeable for field in state)
    assert bits(life.learner.fold(state, life.rounds)) == bits(life.learner.fold(copied(life.state), life.rounds))
    assert data == codec.encode_state(life.learner, life.state)
    assert data == safetensors.numpy.save(life.state._asdict(), metadata={"learner": codec.identity(life.learner)})


def test_an_encoded_state_is_apart_from_the_state(life: Life) -> None:
    """What happens to the state later is not in it."""
    state = copied(life.state)
    data = codec.encode_state(life.learner, state)
    before = bytes(data)
    life.learner.fold(state, life.rounds)
    assert data == before


def test_state_of_another_learner_is_refused(life: Life) -> None:
    """Bytes are read by the very learner that wrote them, and by no other hyperparameters or problem."""
    data = codec.encode_state(life.learner, life.state)
    others = [case.at(PROBLEM) for case in IMPLEMENTATIONS if case is not life.case]
    for problem in (Problem(4, 5, 2.0), Problem(5, 4)):
        with contextlib.suppress(pydantic.ValidationError):
            others.append(life.case.at(problem))
    for other in others:
        with pytest.raises(InvalidStateError):
            codec.decode_state(other, data)


def replaced(life: Life, name: str, array: Any) -> bytes:
    """The encoded state with one array put in place of another, or beside the others, or left out (None)."""
    arrays = {**life.state._asdict(), name: array}
    kept = {key: np.array(value, order="C") for key, value in arrays.items() if value is not None}
    return safetensors.numpy.save(kept, metadata={"learner": codec.identity(life.learner)})


def test_wrong_arrays_are_refused(life: Life) -> None:
    """A missing or extra array, another dtype or shape, a NaN or an infinity: refused naming the array."""
    for name, field in life.state._asdict().items():
        wrong: list[Any] = [
            None,
            np.zeros(field.shape, np.float32),
            np.zeros(field.shape, np.complex64),
            field[None],
            np.zeros((2, 3, 1)),
        ]
        if state_layout(life.learner)[name].most < np.inf:
            wrong += [np.full_like(field, -1), np.full_like(field, state_layout(life.learner)[name].most + 1)]
        if field.dtype == np.float64:
            wrong += [np.where(np.arange(field.size).reshape(field.shape) == 0, bad, field) for bad in (np.nan, np.inf)]
        for array in wrong:
            with pytest.raises(InvalidStateError, match=name):
                codec.decode_state(life.learner, replaced(life, name, array))
    with pytest.raises(InvalidStateError, match="surplus"):
        codec.decode_state(life.learner, replaced(life, "surplus", np.zeros(2)))


def test_state_without_its_learner_is_refused(life: Life) -> None:
    """Arrays that do not say whose they are, are nobody's."""
    arrays = {name: np.array(field, order="C") for name, field in life.state._asdict().items()}
    for metadata in (None, {}, {"learner": "{}"}, {"format": "np"}):
        with pytest.raises(InvalidStateError):
            codec.decode_state(life.learner, safetensors.numpy.save(arrays, metadata=metadata))


def test_decoded_states_can_be_used() -> None:
    """A file that says what no run can lead to (negative or huge counts, norms, diagonals) is refused, or harmless."""
    for case in IMPLEMENTATIONS:
        learner, rounds = case.at(PROBLEM), random_rounds(1, 50, case.at(PROBLEM))
        for name, field in learner.init()._asdict().items():
            for value in (-1, 0, 2**62) if field.dtype == np.int64 else (-1, 0):
                state = learner.init()._replace(**{name: np.full_like(field, value)})
                try:
                    state = codec.decode_state(learner, codec.encode_state(learner, state))
                except InvalidStateError:
                    continue
                state = learner.fold(state, rounds)
                assert is_finite(state), (case, name, value)
                assert np.isfinite(learner.decide(state, rounds.contexts).distributions).all(), (case, name, value)


def check_decodes_or_refuses(learner: AnyLearner, data: bytes) -> None:
    """Decoding gives a finite state of the right layout, or `InvalidStateError`; nothing else is raised."""
    try:
        state = codec.decode_state(learner, data)
    except InvalidStateError:
        return
    assert has_layout(learner, state)
    assert is_finite(state)


def test_truncated_bytes_are_refused(life: Life) -> None:
    """No proper beginning of an encoded state is a state, and neither is one with a tail."""
    data = bytes(codec.encode_state(life.learner, life.state))
    for broken in [*(data[:size] for size in range(0, len(data), 7)), data[:-1], data + b"\0", data + data]:
        with pytest.raises(InvalidStateError):
            codec.decode_state(life.learner, broken)


def test_random_bytes_are_refused(life: Life) -> None:
    """Bytes from anywhere are refused with the one error, whatever length they claim for their header."""

    @LAWS
    @given(st.binary(max_size=200), st.integers(0, 2**64 - 1) | st.integers(0, 200))
    def check(body: bytes, header_size: int) -> None:
        for data in (body, header_size.to_bytes(8, "little") + body):
            with pytest.raises(InvalidStateError):
                codec.decode_state(life.learner, data)

    check()


def test_mutated_bytes_are_decoded_or_refused(life: Life) -> None:
    """A state with some bytes changed, cut out or put in is decoded to a finite state, or refused."""
    whole = bytes(codec.encode_state(life.learner, life.state))
    edits = st.tuples(st.integers(0, len(whole)), st.integers(0, 3), st.binary(max_size=3))

    @LAWS
    @given(st.lists(edits, min_size=1, max_size=4))
    def check(changes: list[tuple[int, int, bytes]]) -> None:
        data = whole
        for position, removed, added in changes:
            data = data[:position] + added + data[position + removed :]
        check_decodes_or_refuses(life.learner, data)

    check()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([0, 8, 2**63, 2**64, "F4", "BF16"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["dtype", "shape", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize(
    "entry",
    [
        *({"dtype": name, "shape": [0]} for name in ("F4", "F8_E4M3", "BF16")),
        *({"dtype": "F64", "shape": s} for s in ([0, 2**63], [0] * 99)),
    ],
    ids=str,
)
def test_arrays_that_numpy_does_not_know_are_refused(entry: dict[str, Any]) -> None:
    """An empty array that the format allows, of a type, size or rank that numpy does not, is no exception."""
    learner = IMPLEMENTATIONS[0].at(PROBLEM)
    whole = bytes(codec.encode_state(learner, learner.init()))
    end = 8 + int.from_bytes(whole[:8], "little")
    tail = len(whole) - end
    text = json.dumps({**json.loads(whole[8:end]), "new": {**entry, "data_offsets": [tail, tail]}}).encode()
    with pytest.raises(InvalidStateError):
        codec.decode_state(learner, len(text).to_bytes(8, "little") + text + whole[end:])


def test_mutated_headers_are_decoded_or_refused(life: Life) -> None:
    """A state whose header says anything else about an array is decoded to a finite state, or refused."""
    whole = bytes(codec.encode_state(life.learner, life.state))
    end = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:end])

    @LAWS
    @given(st.sampled_from([*header, "new"]), st.sampled_from(["dtype", "shape", "data_offsets", "new", None]), JSON)
    def check(array: str, key: str | None, value: Any) -> None:
        entry = value if key is None else {**header.get(array, {}), key: value}
        text = json.dumps({**header, array: entry}).encode()
        check_decodes_or_refuses(life.learner, len(text).to_bytes(8, "little") + text + whole[end:])

    check()


# --- hyperparameters


def schema(life: Life) -> dict[str, Any]:
    """The JSON Schema of the learner's hyperparameters, without the problem."""
    properties: dict[str, Any] = dict(pydantic.TypeAdapter(life.case.learner).json_schema()["properties"])
    del properties["problem"]
    return properties


def out_of_range(alternatives: list[dict[str, Any]]) -> list[Any]:
    """Values that no alternative of a schema allows."""
    bad: list[Any] = ["nonsense", math.nan, math.inf, -math.inf, [1], {}, b"1"]
    limits = [
        a[key]
        for a in alternatives
        for key in ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
        if key in a
    ]
    if limits:
        bad += [min(limits) - 1, max(limits) + 1 if any("maximum" in a for a in alternatives) else "0.5"]
    return bad


def test_hyperparameters_are_described(life: Life) -> None:
    """Every hyperparameter has a JSON Schema with a description and a default, and the schema is JSON."""
    json.dumps(pydantic.TypeAdapter(life.case.learner).json_schema(), allow_nan=False)
    for name, field in schema(life).items():
        assert field.get("description", "").endswith("."), name
        assert "default" in field, name


def test_hyperparameters_out_of_range_are_refused_by_name(life: Life) -> None:
    """A value out of range or of another type is refused, and the error names the field."""
    for name, field in schema(life).items():
        for value in out_of_range(field.get("anyOf", [field])):
            with pytest.raises(pydantic.ValidationError) as caught:
                life.case.learner(problem=PROBLEM, **{name: value})
            assert {error["loc"][0] for error in caught.value.errors()} == {name}, value


def test_unknown_hyperparameters_are_refused_by_name(life: Life) -> None:
    """A hyperparameter that the learner does not have is refused, and the error names it."""
    with pytest.raises(pydantic.ValidationError, match="momentum"):
        life.case.learner(problem=PROBLEM, momentum=0.9)


def test_hyperparameters_are_frozen_values(life: Life) -> None:
    """A learner cannot be changed; one with the same hyperparameters is equal to it and hashes alike."""
    twin = life.case.at(PROBLEM)
    for field in dataclasses.fields(life.case.learner):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(twin, field.name, None)
    assert twin == life.learner
    assert hash(twin) == hash(life.learner)


def test_hyperparameters_survive_json(life: Life) -> None:
    """A learner written as JSON and read back is the same learner."""
    adapter = pydantic.TypeAdapter(life.case.learner)
    assert adapter.validate_json(adapter.dump_json(life.learner)) == life.learner


def test_learner_tells_about_itself(life: Life) -> None:
    """Every learner names its guarantee, a smaller one, and a positive cost that grows with the problem."""
    assert life.learner.guarantee.endswith(".")
    assert life.learner.smaller
    assert 0 < life.learner.fold_cost(1) <= life.case.at(Problem(8, 50)).fold_cost(50)


@pytest.mark.parametrize(
    "sizes",
    [(1, 5), (4, 0), (2.0, 5), ("4", 5), *((4, 5, x) for x in (0.0, -1.0, 1e-7, 1e7, 1e200, math.inf, math.nan))],
)
def test_problems_without_meaning_are_refused(sizes: tuple[Any, ...]) -> None:
    """A problem has at least two labels, a feature, and a norm bound whose square is far from the ends of floats."""
    with pytest.raises(pydantic.ValidationError):
        Problem(*sizes)
