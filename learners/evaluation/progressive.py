"""Progressive evaluation: a learner makes its own decision for each round of a log before it learns from the round.

Each decision recomputes its evidence. Learners with kernels run in one compiled loop, others in Python, with the same
steps. The shadows of the service and the replay of a log share this loop.
"""

from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from learners.base import AnyLearner, BoolArray, Contexts, Decisions, FloatArray, Rounds, State
from learners.kernels import compiled, decide_by_state, fold_by_state
from learners.learner import CompiledLearner
from learners.mathematics.limits import NO_LIMITS, Limits, obey


class Progress(NamedTuple):
    """The result of n rounds."""

    state: State  # after the last round
    probabilities: FloatArray  # (n,), the learner's own probability of each served label, before it learns


def progress_unchecked(
    learner: AnyLearner,
    state: State,
    rounds: Rounds,
    learnt: BoolArray | None = None,
    *,
    limits: Limits = NO_LIMITS,
    distributions: FloatArray | None = None,
    in_python: bool = False,
) -> Progress:
    """Decide and fold n rounds of another policy, bit-identical to `decide` and `fold` on one round at a time.

    Splitting the rounds changes nothing. The learner answers with single labels. The state may be changed in place: use
    the returned one. The caller has checked the rounds; their evidence is not read. Only rounds that `learnt` (n,)
    marks are folded, or all if it is None. Decisions obey the `limits` of the K labels. `distributions` (n, K) receives
    the distribution before each round. `in_python` yields bit-identical results without compiling.
    """
    mask = np.ones(rounds.n, np.bool_) if learnt is None else learnt
    kept = np.empty((0, 0)) if distributions is None else distributions
    found = Progress(state, np.empty(rounds.n))
    if in_python or _is_python or not isinstance(learner, CompiledLearner):
        return _progress(learner, found, rounds, mask, limits, kept)
    state, contexts = learner.prepare(state, rounds.contexts)
    room = Decisions(np.empty((1, learner.problem.n_labels)), np.empty((1, learner.evidence_size)))
    played = rounds._replace(contexts=contexts, evidence=np.empty((0, 0)))
    _progress_compiled(learner.verbs.parameters, state, played, mask, limits, room, (found.probabilities, kept))
    return found._replace(state=state)


def _progress(
    learner: AnyLearner, found: Progress, rounds: Rounds, learnt: BoolArray, limits: Limits, kept: FloatArray
) -> Progress:
    state = found.state
    for t in range(rounds.n):
        one = rounds.rows(t, t + 1)
        decisions = learner.decide_unchecked(state, one.contexts, one.eligible)
        obey(limits, one.eligible[0], decisions.distributions[0])
        found.probabilities[t] = decisions.distributions[0, one.labels[0]]
        if len(kept):
            kept[t] = decisions.distributions[0]
        if learnt[t]:
            state = learner.fold_unchecked(state, one._replace(evidence=decisions.evidence))
    return found._replace(state=state)


@compiled
def _progress_compiled(
    parameters: tuple[Any, ...],
    state: State,
    rounds: Rounds,
    learnt: BoolArray,
    limits: Limits,
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
    context = Contexts(bounds, indices, values, shared)
    played = Rounds(context, label, propensity, right, truth, evidence, residual_uniform, reward, eligible)
    for t in range(len(labels)):
        bounds[0], bounds[1] = starts[t], starts[t + 1]
        for k in range(among.shape[1]):
            eligible[0, k] = among[t, k]
        decide_by_state(parameters, state, context, eligible, distribution, evidence)
        obey(limits, eligible[0], distribution[0])
        probabilities[t] = distribution[0, labels[t]]
        if len(kept):
            kept[t] = distribution[0]
        if learnt[t]:
            label[0], propensity[0], right[0], truth[0] = labels[t], propensities[t], correct[t], truths[t]
            residual_uniform[0], reward[0] = residual_uniforms[t], rewards[t]
            fold_by_state(parameters, state, played)


_is_python = isinstance(_progress_compiled, FunctionType)
"""Whether compilation is switched off, as in mutation tests. Kernels are not dispatched by state then."""
