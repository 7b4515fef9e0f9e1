"""Simulation of a learner on labelled data: predict, draw, reveal whether the answer was right, learn.

Learners with kernels run in one compiled loop. Others run in Python, with the same steps.
"""

from typing import Any, NamedTuple

import numpy as np

from learners.answers import is_structured
from learners.base import (
    NO_LABEL,
    AnyLearner,
    BoolArray,
    Contexts,
    FloatArray,
    IntArray,
    InvalidArrayError,
    Prices,
    Rounds,
    State,
    every_label,
)
from learners.borrowed import borrowed
from learners.checks import (
    BOOL,
    FLOAT,
    check_contexts,
    check_eligible,
    check_labels,
    check_state,
    check_uniforms,
    expect_array,
)
from learners.kernels import compiled, decide_by_state, fold_by_state
from learners.learner import CompiledLearner
from learners.mathematics.exploration import draw_into, draw_unchecked
from learners.mathematics.preparation import one_by_one


class Simulation(NamedTuple):
    """The result of n rounds."""

    labels: IntArray  # (n,) int64, the answers
    propensities: FloatArray  # (n,) float64, in (0, 1], the probability of each answer when it was drawn
    mistakes: BoolArray  # (n,) bool, whether the answer was wrong; an abstention is no mistake
    state: State  # the state after the last round


def simulate(
    learner: AnyLearner,
    contexts: Contexts,
    true_labels: IntArray,
    uniforms: FloatArray,
    state: State = None,
    right: BoolArray | None = None,
    eligible: BoolArray | None = None,
    rewards: FloatArray | None = None,
) -> Simulation:
    """Run n rounds without delay, bit-identical to `decide`, `exploration.draw` and `fold` on one context at a time.

    The learner answers with single labels. It receives whether its answer was right, and the true label only if it
    needs that. Uniforms (n,) in [0, 1) draw the labels. `state` is the state to continue from, None for a new one; it
    may be changed in place: use the returned one. By default, only the true label is right. Instead, `right` (n, K) may
    mark any number of right labels per round, or `rewards` (n, K) in [0, 1] may contain each label's reward, 1 exactly
    if it is right. `eligible` (n, K) marks the eligible labels. Raises `InvalidArrayError`, which names the field, if
    lengths differ or an entry is out of range; `InvalidStateError` if the state does not fit.
    """
    _check(learner, contexts, true_labels, uniforms, right)
    right = _check_rewards(learner, contexts.n, rewards, right)
    among = every_label(contexts.n) if eligible is None else eligible
    check_eligible(among, contexts.n, learner.problem.n_labels, learner.answer)
    if state is not None:
        check_state(state, learner)
    state, n = learner.init() if state is None else state, contexts.n
    revealed = true_labels if learner.needs_true_label else np.full(n, NO_LABEL)
    several = np.empty((0, 0), np.bool_) if right is None else right
    paid = np.empty((0, 0)) if rewards is None else rewards
    world = _World(contexts, true_labels, revealed, uniforms, several, among, paid)
    result = Simulation(np.empty(n, np.int64), np.empty(n), np.empty(n, np.bool_), state)
    if isinstance(learner, CompiledLearner):
        state, contexts = learner.prepare(state, contexts)
        world, result = world._replace(contexts=contexts), result._replace(state=state)
        _play_compiled(learner.verbs.parameters, world, _room(learner, world), result)
    else:
        result = _play(learner, world, result)
    if learner.abstention_reward is not None:
        result.mistakes[result.labels == learner.problem.n_labels - 1] = False
    return result


class _World(NamedTuple):
    contexts: Contexts
    true_labels: IntArray  # (n,)
    revealed: IntArray  # (n,), the true labels that the learner receives, or NO_LABEL
    uniforms: FloatArray  # (n,)
    right: BoolArray  # (n, K), or empty if only the true labels are right
    eligible: BoolArray  # (n, K), or (n, 0) if every label is eligible
    rewards: FloatArray  # (n, K), or empty for rewards of 1 if right and 0 if wrong


class _Round(NamedTuple):
    """One round, in arrays that the next round overwrites."""

    uniform: FloatArray  # (1,)
    distribution: FloatArray  # (1, K)
    played: Rounds  # n = 1


def _room(learner: AnyLearner, world: _World) -> _Round:
    context = world.contexts._replace(starts=np.empty(2, np.int64))
    label, truth, correct = np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.bool_)
    evidence, eligible = np.empty((1, learner.evidence_size)), np.empty((1, world.eligible.shape[1]), np.bool_)
    numbers = [np.empty(1) for _ in range(3)]
    played = Rounds(context, label, numbers[0], correct, truth, evidence, numbers[1], numbers[2], eligible)
    return _Round(np.empty(1), np.empty((1, learner.problem.n_labels)), played)


def _check(
    learner: AnyLearner, contexts: Contexts, true_labels: IntArray, uniforms: FloatArray, right: BoolArray | None
) -> None:
    check_contexts(contexts, learner.problem.n_features)
    check_labels("true_labels", true_labels, contexts.n, learner.problem.n_labels)
    check_uniforms(uniforms, (contexts.n,))
    if right is not None:
        expect_array("right", right, BOOL, 2, (contexts.n, learner.problem.n_labels))
    if is_structured(learner):
        raise InvalidArrayError(f"learner: {learner.algorithm} answers with rows; a simulation needs single labels")


def _check_rewards(
    learner: AnyLearner, n: int, rewards: FloatArray | None, right: BoolArray | None
) -> BoolArray | None:
    """Return the mask of right labels: those with reward 1, if rewards are given."""
    if rewards is None:
        return right
    if right is not None:
        raise InvalidArrayError("pass either `rewards` or `right`, not both")
    expect_array("rewards", rewards, FLOAT, 2, (n, learner.problem.n_labels))
    if not ((rewards >= 0.0) & (rewards <= 1.0)).all():
        raise InvalidArrayError("rewards: every number must be from 0 to 1")
    return np.asarray(rewards == 1.0)


@compiled
def _play_compiled(parameters: tuple[Any, ...], owned_world: _World, owned_round: _Round, owned: Simulation) -> None:
    # Everything is allocated and unpacked once, and without reference counts, which cost more than updates.
    (starts, _, _, _), true_labels, revealed, uniforms, right, among, rewards = borrowed(owned_world)
    labels, propensities, mistakes, state = borrowed(owned)
    uniform, distribution, played = borrowed(owned_round)
    context, label, propensity, correct, truth, evidence, residual_uniform, reward, eligible = played
    unpriced = Prices(np.empty(0), np.empty((0, 0)))
    for t in range(len(uniforms)):
        context.starts[0], context.starts[1], uniform[0] = starts[t], starts[t + 1], uniforms[t]
        for k in range(among.shape[1]):
            eligible[0, k] = among[t, k]
        decide_by_state(parameters, state, context, eligible, unpriced, distribution, evidence)
        draw_into(distribution, uniform, label, propensity, residual_uniform)
        correct[0], truth[0] = _is_right(label[0], t, true_labels, right), revealed[t]
        reward[0] = _reward(label[0], t, correct[0], rewards)
        fold_by_state(parameters, state, played)
        labels[t], propensities[t], mistakes[t] = label[0], propensity[0], not correct[0]


@compiled
def _is_right(label: int, t: int, true_labels: IntArray, right: BoolArray) -> bool:
    return bool(right[t, label]) if len(right) > 0 else label == true_labels[t]


@compiled
def _reward(label: int, t: int, correct: bool, rewards: FloatArray) -> float:
    if len(rewards) > 0:
        return float(rewards[t, label])
    return 1.0 if correct else 0.0


def _play(learner: AnyLearner, world: _World, result: Simulation) -> Simulation:
    state = result.state
    for t, context in enumerate(one_by_one(world.contexts)):
        among = world.eligible[t : t + 1]
        distribution, evidence = learner.decide_unchecked(state, context, among)
        label, propensity, residual_uniform = draw_unchecked(distribution, world.uniforms[t : t + 1])
        correct = np.array([_is_right(label[0], t, world.true_labels, world.right)])
        truth = world.revealed[t : t + 1]
        paid = np.array([_reward(label[0], t, correct[0], world.rewards)])
        state = learner.fold_unchecked(
            state, Rounds(context, label, propensity, correct, truth, evidence, residual_uniform, paid, among)
        )
        result.labels[t], result.propensities[t], result.mistakes[t] = label[0], propensity[0], not correct[0]
    return result._replace(state=state)
