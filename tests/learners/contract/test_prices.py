"""The laws of costs: what they change in a decision, and what they do not."""

import numpy as np
import pytest

from learners.answers import is_structured
from learners.base import NO_PRICES, BoolArray, FloatArray, InvalidArrayError, Prices
from learners.evaluation.progressive import Terms, progress_unchecked
from learners.mathematics.pacing import Budget, paced_weight
from tests.learners.arrays import bits, copied
from tests.learners.contract.lives import PROBLEM, Life, N, only_for
from tests.learners.contract.subsets import some_subsets

K = PROBLEM.n_labels
COSTS = np.array([[0.5, 0.25, 2.0, 1.0]])
WEIGHTS = np.linspace(0.0, 1.0, N)
of_priced = only_for(lambda learner: learner.weighs_costs)


def decided(life: Life, weights: FloatArray, costs: FloatArray, eligible: BoolArray | None = None) -> FloatArray:
    prices = Prices(weights, costs)
    return life.learner.decide(life.state, life.rounds.contexts, eligible, prices).distributions


@only_for(lambda learner: not (learner.weighs_costs or is_structured(learner)))
def test_learners_without_estimates_ignore_prices(life: Life) -> None:
    costs = np.resize(COSTS, (1, life.learner.problem.n_labels))
    assert bits([decided(life, WEIGHTS, costs)]) == bits([decided(life, *NO_PRICES)])


@of_priced
def test_without_weight_costs_change_no_bit(life: Life) -> None:
    assert bits([decided(life, np.zeros(N), COSTS)]) == bits([decided(life, *NO_PRICES)])
    assert bits([decided(life, WEIGHTS, COSTS)[:1]]) == bits([decided(life, *NO_PRICES)[:1]])


@of_priced
def test_only_differences_of_costs_count(life: Life) -> None:
    expected = bits([decided(life, WEIGHTS, COSTS)])
    assert bits([decided(life, WEIGHTS, COSTS + 64.0)]) == expected
    assert bits([decided(life, WEIGHTS / 4.0, 4.0 * COSTS)]) == expected
    assert bits([decided(life, WEIGHTS, np.tile(COSTS, (N, 1)))]) == expected
    assert bits([decided(life, np.ones(N), np.full((1, K), 3.0))]) == bits([decided(life, *NO_PRICES)])


@of_priced
def test_a_dearer_label_is_answered_less(life: Life) -> None:
    for k in range(K):
        dearer = COSTS + 0.5 * (np.arange(K) == k)
        assert (decided(life, WEIGHTS, dearer)[:, k] <= decided(life, WEIGHTS, COSTS)[:, k] + 1e-12).all()


@of_priced
def test_a_large_weight_leads_to_the_cheapest_eligible_label(life: Life) -> None:
    eligible = some_subsets(np.random.default_rng(1), N, K)
    found = decided(life, np.full(N, 1e6), COSTS, eligible)
    cheapest = np.where(eligible, COSTS, np.inf).argmin(axis=1)
    assert (found.argmax(axis=1) == cheapest).all()


@of_priced
def test_costs_of_ineligible_labels_do_not_matter(life: Life) -> None:
    eligible = some_subsets(np.random.default_rng(2), N, K)
    costs = np.tile(COSTS, (N, 1))
    expected = bits([decided(life, WEIGHTS, costs, eligible)])
    assert bits([decided(life, WEIGHTS, np.where(eligible, costs, 0.0), eligible)]) == expected


@of_priced
def test_decisions_and_replays_weigh_prices_alike(life: Life) -> None:
    prices, expected = Prices(WEIGHTS, COSTS), bits([decided(life, WEIGHTS, COSTS)])
    distributions, nothing = np.empty((N, K)), np.zeros(N, np.bool_)
    for in_python in (False, True):
        state = copied(life.state)
        rounds, terms = life.rounds, Terms(prices)
        progress_unchecked(
            life.learner, state, rounds, nothing, terms=terms, distributions=distributions, in_python=in_python
        )
        assert bits([distributions]) == expected


@of_priced
def test_a_replay_paces_its_own_costs_the_same_for_any_split(life: Life) -> None:
    budget, lags, rounds = Budget(0.6), np.full(N, 5.0), life.rounds
    terms = Terms(Prices(np.zeros(N), COSTS), budget=budget, lags=lags)
    whole, distributions = copied(life.learner.init()), np.empty((N, K))
    whole = progress_unchecked(life.learner, whole, rounds, terms=terms, distributions=distributions).state
    assert paced_weight(whole.pacing, budget) > 0.0
    for size, in_python in ((7, False), (100, True)):
        state, kept = life.learner.init(), np.empty((N, K))
        for start in range(0, N, size):
            some = slice(start, min(start + size, N))
            part = terms._replace(prices=Prices(np.zeros(some.stop - start), COSTS), lags=lags[some])
            args = {"terms": part, "distributions": kept[some], "in_python": in_python}
            state = progress_unchecked(life.learner, state, rounds.rows(start, some.stop), **args).state  # type: ignore[arg-type]
        assert bits(state) == bits(whole)
        assert bits([kept]) == bits([distributions])


WRONG = [
    (Prices(np.zeros(N - 1), COSTS), "weights"),
    (Prices(np.zeros(N), COSTS[:, 1:]), "costs"),
    (Prices(np.zeros(N), COSTS[0]), "costs"),
    (Prices(np.full(N, -1.0), COSTS), "weights"),
    (Prices(np.zeros(N), np.full((1, K), np.inf)), "costs"),
    (Prices(np.zeros(N), np.full((1, K), np.nan)), "costs"),
    (Prices(np.zeros(N), np.empty((0, 0))), "costs"),
]


@pytest.mark.parametrize(("prices", "field"), WRONG)
@of_priced
def test_wrong_prices_are_refused(life: Life, prices: Prices, field: str) -> None:
    with pytest.raises(InvalidArrayError, match=field):
        life.learner.decide(life.state, life.rounds.contexts, None, prices)
