"""Simulation of an action learner on candidates with known rewards: choose, reveal the reward of the choice, learn."""

from typing import Any, NamedTuple

import numpy as np

from learners.actions.base import ActionRounds, Candidates
from learners.actions.compiled_action_learner import CompiledActionLearner, check_candidates
from learners.base import Contexts, FloatArray, IntArray, InvalidArrayError, Prices, State
from learners.checks import FLOAT, check_state, check_uniforms, expect_array
from learners.kernels import call_by_state, compiled, decide_by_state, fold_by_state, row
from learners.mathematics.exploration import as_propensity, draw_one


class ActionSimulation(NamedTuple):
    """The result of n rounds."""

    choices: IntArray  # (n,) int64, the position of the chosen candidate within its round
    propensities: FloatArray  # (n,) float64, in (0, 1], the probability of each choice when it was drawn
    rewards: FloatArray  # (n,) float64, in [0, 1], the reward of each choice
    state: State  # the state after the last round


def simulate_actions(
    learner: CompiledActionLearner[Any],
    candidates: Candidates,
    rewards: FloatArray,
    uniforms: FloatArray,
    state: State = None,
) -> ActionSimulation:
    """Run n rounds without delay, in one compiled loop: `decide`, a draw and `fold` on one round at a time.

    Distributions and choices are bit-identical to those of separate calls. The arrays of a growing state may have more
    spare rows. `rewards` (m,), in [0, 1], has the reward of every candidate. Uniforms (n,) in [0, 1) draw the choices.
    `state` is the state to continue from, None for a new one; it may be changed in place: use the returned one. Raises
    `InvalidArrayError`, which names the field, if lengths differ or a number is out of range; `InvalidStateError` if
    the state does not fit.
    """
    check_candidates(candidates, learner.problem.n_features)
    expect_array("rewards", rewards, FLOAT, 1, (candidates.vectors.n,))
    if not ((rewards >= 0.0) & (rewards <= 1.0)).all():
        raise InvalidArrayError("rewards: must be from 0 to 1")
    check_uniforms(uniforms, (candidates.n,))
    if state is not None:
        check_state(state, learner)
    state, n = learner.init() if state is None else state, candidates.n
    state = learner.with_spare_rows(state, len(np.unique(candidates.vectors.indices)))
    call_by_state(learner.state_type, learner.kernels)
    result = ActionSimulation(np.empty(n, np.int64), np.empty(n), np.empty(n), state)
    most = int(np.diff(candidates.starts).max(initial=0))
    _play(learner.kernels.parameters, candidates, rewards, uniforms, np.empty(most), result)
    return result


@compiled
def _play(
    parameters: tuple[Any, ...],
    candidates: Candidates,
    all_rewards: FloatArray,
    uniforms: FloatArray,
    p: FloatArray,
    result: ActionSimulation,
) -> None:
    # Unpack and allocate everything once, outside the loop: reference counts cost as much as updates.
    (starts, indices, values, shared), rounds, all_eligible, (weights, costs) = candidates
    choices, propensities, rewards, state = result
    bounds, propensity, reward, count = np.zeros(2, np.int64), np.empty(1), np.empty(1), np.empty(1, np.int64)
    chosen, none = np.zeros(2, np.int64), np.empty(0, np.bool_)
    for t in range(len(uniforms)):
        first, end = rounds[t], rounds[t + 1]
        m = end - first
        start, stop = starts[first], starts[end]
        own_indices = indices if shared else indices[start:stop]
        vectors = Contexts(starts[first : end + 1] - start, own_indices, values[start:stop], shared)
        eligible = all_eligible[first:end] if len(all_eligible) > 0 else none
        bounds[1] = m
        own = Prices(weights[t : t + 1], costs[:, first:end])
        decide_by_state(parameters, state, Candidates(vectors, bounds, eligible, own), p[:m])
        choice, _ = draw_one(p[:m], uniforms[t])
        entries, numbers = row(vectors, choice)
        chosen[1] = len(numbers)
        propensity[0], reward[0] = as_propensity(p[choice]), all_rewards[first + choice]
        count[0] = m if len(eligible) == 0 else eligible.sum()
        played = ActionRounds(Contexts(chosen, entries, numbers, shared), reward, propensity, count)
        fold_by_state(parameters, state, played)
        choices[t], propensities[t], rewards[t] = choice, propensity[0], reward[0]
