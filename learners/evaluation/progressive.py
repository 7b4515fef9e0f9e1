"""Progressive evaluation: a learner makes its own decision for each round of a log before it learns from the round.

Each decision recomputes its evidence. Learners with kernels run in one compiled loop, others in Python, with the same
steps. The shadows of the service and the replay of a log share this loop.
"""

from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from learners.base import NO_PRICES, AnyLearner, BoolArray, Contexts, Decisions, FloatArray, Prices, Rounds, State
from learners.kernels import compiled, decide_by_state, fold_by_state
from learners.learner import CompiledLearner
from learners.mathematics.limits import NO_LIMITS, Limits, obey
from learners.mathematics.pacing import NO_BUDGET, Budget, pace, paced_weight
from learners.mathematics.prices import price_row


class Progress(NamedTuple):
    """The result of n rounds."""

    state: State  # after the last round
    probabilities: FloatArray  # (n,), the learner's own probability of each served label, before it learns


class Terms(NamedTuple):
    """What n decisions obey besides the learner."""

    prices: Prices = NO_PRICES
    limits: Limits = NO_LIMITS  # of the K labels
    budget: Budget = NO_BUDGET  # if it is finite, the learner's own pacing replaces the weights of the prices
    lags: FloatArray = np.empty(0)  # (n,), for the pacing: see `pace`; (0,) without a budget


NO_TERMS = Terms()


def progress_unchecked(
    learner: AnyLearner,
    state: State,
    rounds: Rounds,
    learnt: BoolArray | None = None,
    *,
    terms: Terms = NO_TERMS,
    distributions: FloatArray | None = None,
    in_python: bool = False,
) -> Progress:
    """Decide and fold n rounds of another policy, bit-identical to `decide` and `fold` on one round at a time.

    Splitting the rounds changes nothing. The learner answers with single labels. The state may be changed in place: use
    the returned one. The caller has checked the rounds; their evidence is not read. Only rounds that `learnt` (n,)
    marks are folded, or all if it is None. Their costs are the expected costs of the learner's own decisions.
    `distributions` (n, K) receives the distribution before each round. `in_python` yields bit-identical results without
    compiling.
    """
    mask = np.ones(rounds.n, np.bool_) if learnt is None else learnt
    kept = np.empty((0, 0)) if distributions is None else distributions
    found = Progress(state, np.empty(rounds.n))
    if not (learner.weighs_costs and terms.prices.costs.size):
        terms = terms._replace(prices=NO_PRICES, budget=NO_BUDGET)
    if in_python or _is_python or not isinstance(learner, CompiledLearner):
        return _progress(learner, found, rounds, mask, terms, kept)
    state, contexts = learner.prepare(state, rounds.contexts)
    room = Decisions(np.empty((1, learner.problem.n_labels)), np.empty((1, learner.evidence_size)))
    played, results = rounds._replace(contexts=contexts, evidence=np.empty((0, 0))), (found.probabilities, kept)
    _progress_compiled(learner.verbs.parameters, state, played, mask, terms, _pacing_of(state), room, results)
    return found._replace(state=state)


def _pacing_of(state: Any) -> FloatArray:
    return getattr(state, "pacing", _NO_PACING)


_NO_PACING = np.empty(0)


def _progress(
    learner: AnyLearner, found: Progress, rounds: Rounds, learnt: BoolArray, terms: Terms, kept: FloatArray
) -> Progress:
    state, weight = found.state, np.empty(1)
    for t in range(rounds.n):
        one = rounds.rows(t, t + 1)
        prices = _own_prices(terms, t, _pacing_of(state), weight)
        decisions = learner.decide_unchecked(state, one.contexts, one.eligible, prices)
        obey(terms.limits, one.eligible[0], decisions.distributions[0])
        found.probabilities[t] = decisions.distributions[0, one.labels[0]]
        if len(kept):
            kept[t] = decisions.distributions[0]
        if learnt[t]:
            state = learner.fold_unchecked(state, one._replace(evidence=decisions.evidence))
            _pay(terms, t, prices, decisions.distributions[0], _pacing_of(state))
    return found._replace(state=state)


@compiled
def _own_prices(terms: Terms, t: int, pacing: FloatArray, weight: FloatArray) -> Prices:
    """Return the prices of the t-th decision; write λ to the array `weight` (1,) if the learner has its own."""
    own = price_row(terms.prices, t)
    if not terms.budget.cost < np.inf:
        return own
    weight[0] = paced_weight(pacing, terms.budget)
    return Prices(weight, own.costs)


@compiled
def _pay(terms: Terms, t: int, prices: Prices, distribution: FloatArray, pacing: FloatArray) -> None:
    if terms.budget.cost < np.inf:
        cost = 0.0
        for k in range(len(distribution)):
            cost += distribution[k] * prices.costs[0, k]
        pace(pacing, terms.budget, cost, prices.weights[0], terms.lags[t])


@compiled
def _progress_compiled(
    parameters: tuple[Any, ...],
    state: State,
    rounds: Rounds,
    learnt: BoolArray,
    terms: Terms,
    pacing: FloatArray,
    one: Decisions,
    found: tuple[FloatArray, FloatArray],
) -> None:
    # Unpack and allocate everything once, outside the loop: reference counts cost as much as updates.
    contexts, labels, propensities, correct, truths, _, residual_uniforms, rewards, among = rounds
    starts, indices, values, shared = contexts
    distribution, evidence = one
    probabilities, kept = found
    bounds, label, propensity, right = np.empty(2, np.int64), np.empty(1, np.int64), np.empty(1), np.empty(1, np.bool_)
    truth, residual_uniform, reward = np.empty(1, np.int64), np.empty(1), np.empty(1)
    eligible = np.empty((1, among.shape[1]), np.bool_)
    context, weight = Contexts(bounds, indices, values, shared), np.empty(1)
    played = Rounds(context, label, propensity, right, truth, evidence, residual_uniform, reward, eligible)
    for t in range(len(labels)):
        bounds[0], bounds[1] = starts[t], starts[t + 1]
        for k in range(among.shape[1]):
            eligible[0, k] = among[t, k]
        prices = _own_prices(terms, t, pacing, weight)
        decide_by_state(parameters, state, context, eligible, prices, distribution, evidence)
        obey(terms.limits, eligible[0], distribution[0])
        probabilities[t] = distribution[0, labels[t]]
        if len(kept):
            kept[t] = distribution[0]
        if learnt[t]:
            label[0], propensity[0], right[0], truth[0] = labels[t], propensities[t], correct[t], truths[t]
            residual_uniform[0], reward[0] = residual_uniforms[t], rewards[t]
            fold_by_state(parameters, state, played)
            _pay(terms, t, prices, distribution[0], pacing)


_is_python = isinstance(_progress_compiled, FunctionType)
"""Whether compilation is switched off, as in mutation tests. Kernels are not dispatched by state then."""
