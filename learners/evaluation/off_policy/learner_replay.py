"""Replay of a log to another learner: the distribution that it would answer from in each round, learning as it goes.

Before round t, the learner has folded rounds 1 … t-1, so its policy π_t does not depend on what it is evaluated on
(progressive validation). It is evaluated by importance weights, and then folds the logged round: the label that was
served, with the propensity with which it was served. Learners weigh their updates by that propensity.
"""

from typing import Any, NamedTuple

import numpy as np

from learners.answers import is_structured
from learners.base import (
    NO_LABEL,
    AnyLearner,
    BoolArray,
    Contexts,
    Decisions,
    FloatArray,
    IntArray,
    InvalidArrayError,
    Rounds,
)
from learners.checks import check_eligible
from learners.compiled_learner import CompiledLearner
from learners.context_checks import check_contexts
from learners.evaluation.off_policy.chance import uniforms
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.kernels import call_by_state, compiled, decide_by_state, fold_by_state
from learners.mathematics.norms import one_by_one


class Replay(NamedTuple):
    """The result of n rounds."""

    distributions: FloatArray  # (n, K), before each round
    state: Any  # after the last round


def replay(
    learner: AnyLearner, rounds: LoggedRounds, state: Any = None, seed: int = 0, in_python: bool = False
) -> Replay:
    """Return the distributions of a learner over n logged rounds. Rounds that a holdout answered are not folded.

    Args:
        learner: a learner that answers with single labels.
        rounds: logged rounds that `check_logged` accepts.
        state: the state to continue from, to read a log in parts; None for `learner.init()`. May be changed in place:
            use the returned one.
        seed: of the random numbers that some updates use.
        in_python: whether to loop in Python, with the same result to the bit. It spares the compilation of the loop for
            this learner, which takes longer than some 100,000 rounds in Python.

    Raises:
        InvalidArrayError: if the learner cannot learn from the rounds; the message names the field.
    """
    _check(learner, rounds)
    state = learner.init() if state is None else state
    log = _Log(
        rounds.contexts,
        rounds.labels,
        rounds.propensities,
        rounds.rewards,
        rounds.true_labels if learner.needs_true_label else np.full(rounds.n, NO_LABEL),
        rounds.eligible,
        rounds.holdout,
        uniforms(seed, 3, rounds.numbers),
    )
    result = Replay(np.empty((rounds.n, learner.problem.n_labels)), state)
    if in_python or not isinstance(learner, CompiledLearner):
        return _play(learner, log, result)
    state, contexts = learner.prepare(state, rounds.contexts)
    call_by_state(learner.state_type, learner.kernels)
    room = Decisions(np.empty((1, learner.problem.n_labels)), np.empty((1, learner.evidence_size)))
    result = result._replace(state=state)
    _play_compiled(learner.kernels.parameters, log._replace(contexts=contexts), room, result)
    return result


class _Log(NamedTuple):
    contexts: Contexts
    labels: IntArray  # (n,)
    propensities: FloatArray  # (n,)
    rewards: FloatArray  # (n,)
    true_labels: IntArray  # (n,), those that the learner receives
    eligible: BoolArray  # (n, K), or (n, 0) if every label is eligible
    holdout: BoolArray  # (n,)
    residual_uniforms: FloatArray  # (n,)


def _check(learner: AnyLearner, rounds: LoggedRounds) -> None:
    if is_structured(learner):
        raise InvalidArrayError(f"learner: {learner.algorithm} answers with rows; evaluation needs single labels")
    check_contexts(rounds.contexts, learner.problem.n_features)
    check_eligible(rounds.eligible, rounds.n, learner.problem.n_labels, learner.answer)
    learned = ~rounds.holdout
    if learner.needs_true_label and (rounds.true_labels[learned] == NO_LABEL).any():
        row = int(np.flatnonzero(learned & (rounds.true_labels == NO_LABEL))[0])
        raise InvalidArrayError(f"row {row}: {learner.algorithm} needs the true label of every round")
    partial = learned & (rounds.rewards != 0.0) & (rounds.rewards != 1.0)
    if not learner.accepts_rewards and partial.any():
        row = int(np.flatnonzero(partial)[0])
        raise InvalidArrayError(
            f"row {row}: reward is {rounds.rewards[row]}; {learner.algorithm} learns only from 0 and 1"
        )


@compiled
def _play_compiled(parameters: tuple[Any, ...], log: _Log, one: Decisions, result: Replay) -> None:
    # Unpack and allocate everything once, outside the loop: reference counts cost as much as updates.
    (starts, indices, values, shared), labels, propensities, rewards, true_labels, among, holdout, residuals = log
    distributions, state = result
    distribution, evidence = one
    bounds, label, propensity = np.empty(2, np.int64), np.empty(1, np.int64), np.empty(1)
    correct, truth, residual = np.empty(1, np.bool_), np.empty(1, np.int64), np.empty(1)
    reward, eligible = np.empty(1), np.empty((1, among.shape[1]), np.bool_)
    context = Contexts(bounds, indices, values, shared)
    played = Rounds(context, label, propensity, correct, truth, evidence, residual, reward, eligible)
    for t in range(len(labels)):
        bounds[0], bounds[1] = starts[t], starts[t + 1]
        for k in range(among.shape[1]):
            eligible[0, k] = among[t, k]
        decide_by_state(parameters, state, context, eligible, distribution, evidence)
        distributions[t] = distribution[0]
        if not holdout[t]:
            label[0], propensity[0], reward[0], truth[0] = labels[t], propensities[t], rewards[t], true_labels[t]
            correct[0], residual[0] = rewards[t] == 1.0, residuals[t]
            fold_by_state(parameters, state, played)


def _play(learner: AnyLearner, log: _Log, result: Replay) -> Replay:
    state = result.state
    for t, context in enumerate(one_by_one(log.contexts)):
        row = slice(t, t + 1)
        distribution, evidence = learner.decide_unchecked(state, context, log.eligible[row])
        result.distributions[t] = distribution[0]
        if not log.holdout[t]:
            correct = log.rewards[row] == 1.0
            taken = (log.labels[row], log.propensities[row], correct, log.true_labels[row], evidence)
            played = Rounds(context, *taken, log.residual_uniforms[row], log.rewards[row], log.eligible[row])
            state = learner.fold_unchecked(state, played)
    return result._replace(state=state)
