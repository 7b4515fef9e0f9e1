"""Replays a log to another learner: computes its distribution for each round, then folds the round.

Before round t, the learner has folded rounds 1 … t-1, so its policy π_t does not depend on the round that evaluates it
(progressive validation). Then it folds the round as logged: learners from bits weight the update by the logged
propensity, learners with full information use the true label.
"""

from typing import NamedTuple

import numpy as np

from learners.answers import is_structured
from learners.base import NO_LABEL, AnyLearner, FloatArray, InvalidArrayError, Rounds, State
from learners.checks import check_contexts, check_eligible
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.evaluation.off_policy.sums import uniforms
from learners.evaluation.progressive import NO_TERMS, Terms, progress_unchecked


class Replay(NamedTuple):
    """The result of n rounds."""

    distributions: FloatArray  # (n, K), the learner's distribution before it learned from each round
    state: State  # after the last round


def replay(
    learner: AnyLearner,
    rounds: LoggedRounds,
    state: State = None,
    seed: int = 0,
    *,
    terms: Terms = NO_TERMS,
    in_python: bool = False,
) -> Replay:
    """Replay n rounds to a learner that answers single labels. Holdout rounds, which others answered, are not folded.

    `state` is the state to continue from, None for a new one; it may be changed in place: use the returned one. `seed`
    seeds the random numbers that some updates use. Its decisions obey the `terms`.
    `in_python` skips compiling the loop for this learner, with bit-identical results; compiling takes as long as about
    100,000 rounds in Python. Raises `InvalidArrayError` if the learner cannot learn from the rounds.
    """
    _check(learner, rounds)
    played = Rounds(
        rounds.contexts,
        rounds.labels,
        rounds.propensities,
        rounds.rewards == 1.0,
        rounds.true_labels if learner.needs_true_label else np.full(rounds.n, NO_LABEL),
        np.empty((rounds.n, 0)),
        uniforms(seed, 3, rounds.numbers),
        rounds.rewards,
        rounds.eligible,
    )
    distributions = np.empty((rounds.n, learner.problem.n_labels))
    state = learner.init() if state is None else state
    progress = progress_unchecked(
        learner, state, played, ~rounds.holdout, terms=terms, distributions=distributions, in_python=in_python
    )
    return Replay(distributions, progress.state)


def _check(learner: AnyLearner, rounds: LoggedRounds) -> None:
    if is_structured(learner):
        raise InvalidArrayError(f"learner: {learner.algorithm} answers with rows; evaluation needs single labels")
    check_contexts(rounds.contexts, learner.problem.n_features)
    check_eligible(rounds.eligible, rounds.n, learner.problem.n_labels, learner.answer)
    learned = ~rounds.holdout
    if learner.needs_true_label and (rounds.true_labels[learned] == NO_LABEL).any():
        row = int(np.flatnonzero(learned & (rounds.true_labels == NO_LABEL))[0])
        raise InvalidArrayError(f"row {row}: {learner.algorithm} needs the true label of every round")
    partial = learned & (rounds.rewards != 0.0) & (rounds.rewards != 1.0) & ~rounds.abstained
    if not learner.accepts_rewards and partial.any():
        row = int(np.flatnonzero(partial)[0])
        raise InvalidArrayError(
            f"row {row}: reward is {rounds.rewards[row]}; {learner.algorithm} learns only from 0 and 1"
        )
