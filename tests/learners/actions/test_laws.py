"""The contract of learners of actions: each law, on each implementation."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from learners.actions.base import ActionRounds, AnyActionLearner, Candidates
from learners.base import Contexts, InvalidArrayError, InvalidStateError
from learners.codec import decode_state, encode_state
from learners.evaluation.action_simulation import simulate_actions
from learners.mathematics.exploration import draw_one
from tests.learners.actions.worlds import CASES, ActionCase, D, one_at, some_candidates, some_rounds, sparse
from tests.learners.arrays import bits, copied, is_finite

pytestmark = pytest.mark.parametrize("case", CASES, ids=str)


def taught(learner: AnyActionLearner, rounds: int = 60) -> Any:
    return learner.fold(learner.init(), some_rounds(np.random.default_rng(1), rounds))


def per_round(candidates: Candidates, column: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    return (column[first:end] for first, end in zip(candidates.starts, candidates.starts[1:], strict=False))


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("rounds", [0, 60])
def test_choices_have_distributions(case: ActionCase, rounds: int, restricted: bool) -> None:
    """Probabilities sum to 1 in each round, are 0 for candidates that are not eligible, and at least ε/K for others."""
    candidates = some_candidates(np.random.default_rng(2), 50, restricted=restricted)
    learner = case.at()
    distributions = learner.decide(taught(learner, rounds), candidates)
    eligible = candidates.eligible if restricted else np.ones(len(distributions), np.bool_)
    assert (distributions[~eligible] == 0.0).all()
    rounds_of_both = per_round(candidates, distributions), per_round(candidates, eligible)
    for p, mine in zip(*rounds_of_both, strict=True):
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        assert (p[mine] >= case.least_exploration / mine.sum() - 1e-15).all()
        assert (p[mine] > 0.0).all()


def test_candidates_that_are_not_eligible_do_not_matter(case: ActionCase) -> None:
    candidates, learner = some_candidates(np.random.default_rng(3), 40, restricted=True), case.at()
    state = taught(learner)
    alone = [int(one_at(candidates, t).eligible.sum()) for t in range(40)]
    kept = np.flatnonzero(candidates.eligible)
    lengths = np.diff(candidates.vectors.starts)[kept]
    entries = np.concatenate([np.arange(*candidates.vectors.starts[a : a + 2]) for a in kept])
    vectors = Contexts.sparse(lengths, candidates.vectors.indices[entries], candidates.vectors.values[entries])
    few = Candidates(vectors, np.concatenate([[0], np.cumsum(alone)]), np.empty(0, np.bool_))
    assert learner.decide(state, few).tobytes() == learner.decide(state, candidates)[kept].tobytes()


@pytest.mark.parametrize("restricted", [False, True])
def test_rounds_do_not_depend_on_their_batch(case: ActionCase, restricted: bool) -> None:
    rng, learner = np.random.default_rng(4), case.at()
    candidates, rounds = some_candidates(rng, 30, restricted=restricted), some_rounds(rng, 60)
    state, before = taught(learner), bits(taught(learner))
    together = learner.decide(state, candidates)
    single = np.concatenate([learner.decide(state, one_at(candidates, t)) for t in range(30)])
    assert together.tobytes() == single.tobytes()
    assert bits(state) == before
    one_by_one = copied(state)
    for t in range(60):
        one_by_one = learner.fold(one_by_one, rounds.rows(t, t + 1))
    assert bits(learner.fold(state, rounds)) == bits(one_by_one)


def test_dense_and_sparse_vectors_mean_the_same(case: ActionCase) -> None:
    rng, learner = np.random.default_rng(5), case.at()
    rounds, candidates = some_rounds(rng, 50, shared=True), some_candidates(rng, 20, shared=True)
    for values in (rounds.chosen.values, candidates.vectors.values):
        values[values == 0.0] = 0.5  # some learners measure a dense zero as a value
    leaner = rounds._replace(chosen=sparse(rounds.chosen.values.reshape(-1, D)))
    few = candidates._replace(vectors=sparse(candidates.vectors.values.reshape(-1, D)))
    dense = learner.decide(learner.fold(learner.init(), rounds), candidates)
    assert dense == pytest.approx(learner.decide(learner.fold(learner.init(), leaner), few), rel=1e-9)


def test_order_of_candidates_does_not_matter(case: ActionCase) -> None:
    learner, rng = case.at(), np.random.default_rng(6)
    matrix = rng.normal(size=(5, D))
    starts, all_of_them = np.array([0, 5]), np.empty(0, np.bool_)
    state = taught(learner)
    forward = learner.decide(state, Candidates(Contexts.dense(matrix), starts, all_of_them))
    backward = learner.decide(state, Candidates(Contexts.dense(matrix[::-1]), starts, all_of_them))
    assert forward == pytest.approx(backward[::-1], rel=1e-12)


def test_contributions_add_up_to_the_scores(case: ActionCase) -> None:
    candidates, learner = some_candidates(np.random.default_rng(8), 40), case.at()
    state, before = taught(learner), bits(taught(learner))
    vectors = [candidates.vectors.rows(a, a + 1) for a in range(candidates.vectors.n)]
    added = [learner.contributions(state, vector) for vector in vectors]
    assert [each.shape for each in added] == [vector.values.shape for vector in vectors]
    sums = np.array([each.sum() for each in added])
    for p, scores in zip(
        *[per_round(candidates, each) for each in (learner.decide(state, candidates), sums)], strict=True
    ):
        assert (np.diff(p[np.argsort(scores)]) >= -1e-12).all()
        assert scores[p.argmax()] == pytest.approx(scores.max())
    assert np.ptp(sums) > 0.1
    assert bits(state) == before


def test_states_survive_the_codec(case: ActionCase) -> None:
    learner: Any = case.at()
    state = taught(learner)
    stored = encode_state(learner, state)
    assert bits(decode_state(learner, stored)) == bits(state)
    with pytest.raises(InvalidStateError, match="another learner"):
        decode_state(case.at(D + 1), stored)  # type: ignore[arg-type]


def test_simulation_is_the_verbs_in_turn(case: ActionCase) -> None:
    rng, learner = np.random.default_rng(7), case.at()
    candidates, uniforms = some_candidates(rng, 80, restricted=True), rng.random(80)
    rewards = rng.random(candidates.vectors.n)
    result = simulate_actions(learner, candidates, rewards, uniforms)  # type: ignore[arg-type]
    state = learner.init()
    for t in range(80):
        one = one_at(candidates, t)
        p = learner.decide(state, one)
        a, _ = draw_one(p, uniforms[t])
        reward = rewards[candidates.starts[t] + a]
        assert (result.choices[t], result.propensities[t], result.rewards[t]) == (a, p[a], reward)
        outcome = np.array([reward]), p[a : a + 1], np.array([int(one.eligible.sum())])
        state = learner.fold(state, ActionRounds(one.vectors.rows(a, a + 1), *outcome))
    some = some_candidates(rng, 20)
    assert learner.decide(result.state, some).tobytes() == learner.decide(state, some).tobytes()


@pytest.mark.parametrize("extreme", [1e-300, 5e-324, 1e12])
def test_extreme_numbers_leave_finite_states(case: ActionCase, extreme: float) -> None:
    rng, learner = np.random.default_rng(8), case.at()
    rounds, candidates = some_rounds(rng, 40, shared=True), some_candidates(rng, 20)
    rounds.chosen.values[::7] *= extreme
    state = learner.fold(learner.init(), rounds)
    assert is_finite(state)
    assert np.isfinite(learner.decide(state, candidates)).all()


BAD_CANDIDATES: dict[str, dict[str, Any]] = {
    "starts": {"starts": np.array([0, 2, 2, 5])},
    "starts: must begin": {"starts": np.array([1, 5])},
    "starts must|starts:": {"starts": np.array([0.0, 5.0])},
    "eligible: each round": {"eligible": np.array([False, False, True, True, True])},
    "eligible": {"eligible": np.array([True])},
    "indices": {"vectors": Contexts.sparse([1] * 5, [D] * 5, [1.0] * 5)},
    "finite": {"vectors": Contexts.sparse([1] * 5, [0] * 5, [np.nan] * 5)},
}


@pytest.mark.parametrize("words", BAD_CANDIDATES)
def test_bad_candidates_are_refused(case: ActionCase, words: str) -> None:
    vectors = Contexts.sparse([1] * 5, [0] * 5, [1.0] * 5)
    good, learner = Candidates(vectors, np.array([0, 2, 5]), np.empty(0, np.bool_)), case.at()
    learner.decide(learner.init(), good)
    with pytest.raises(InvalidArrayError, match=words):
        learner.decide(learner.init(), good._replace(**BAD_CANDIDATES[words]))


BAD_ROUNDS: dict[str, dict[str, Any]] = {
    "rewards": {"rewards": np.array([0.5, 1.1])},
    "rewards: must": {"rewards": np.array([0.5, np.nan])},
    "propensities": {"propensities": np.array([0.0, 1.0])},
    "counts": {"counts": np.array([0, 1])},
    "count": {"counts": np.array([1.0, 1.0])},
    "indices": {"chosen": Contexts.sparse([1, 1], [D, 0], [1.0, 1.0])},
}


@pytest.mark.parametrize("words", BAD_ROUNDS)
def test_bad_rounds_are_refused(case: ActionCase, words: str) -> None:
    learner, good = case.at(), some_rounds(np.random.default_rng(9), 2)
    with pytest.raises(InvalidArrayError, match=words):
        learner.fold(learner.init(), good._replace(**BAD_ROUNDS[words]))
    with pytest.raises(InvalidStateError):
        learner.fold((np.zeros(1),), good)


def test_costs_and_guarantees_are_stated(case: ActionCase) -> None:
    learner = case.at()
    assert 0 < learner.decide_cost(1) <= learner.decide_cost(D)
    assert 0 < learner.fold_cost(1) <= learner.fold_cost(D)
    assert learner.guarantee.startswith("No theorem covers these settings")
