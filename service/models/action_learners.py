"""Learners of models with actions, in the form that the rest of the service uses for all learners."""

from typing import Any, ClassVar, Protocol, cast

import numpy as np

from learners.actions.base import ActionRounds, AnyActionLearner, Candidates
from learners.base import AnyLearner, Contexts, FloatArray, Rounds
from learners.hyperparameters import hyperparameters
from learners.registry import ACTION_LEARNERS, RECOMMENDED
from service.actions.errors import ActionLearnerError
from service.wording.values import joined, quoted


class _Folds(Protocol):
    def fold_unchecked(self, state: Any, rounds: ActionRounds) -> Any: ...


class _Served:
    """A learner of actions as a `Learner`. The evidence of a prediction is its number of candidates."""

    answer: ClassVar[str] = "label"
    context_norm: ClassVar[str] = "euclidean"
    intercept: ClassVar[bool] = True
    accepts_rewards: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = False
    evidence_size: ClassVar[int] = 1
    needs_true_label: ClassVar[bool] = False
    fold_overhead: ClassVar[int] = 0

    def fold_unchecked(self, state: Any, rounds: Rounds) -> Any:
        """See `Learner.fold_unchecked`. The contexts are the vectors of the chosen candidates."""
        counts = rounds.evidence[:, 0].astype(np.int64)
        chosen = ActionRounds(rounds.contexts, rounds.rewards, rounds.propensities, counts)
        return cast(_Folds, super()).fold_unchecked(state, chosen)


def _served(cls: type[Any]) -> type[Any]:
    named = {"__doc__": cls.__doc__, "__module__": __name__}
    return hyperparameters(type(f"Served{cls.__name__}", (_Served, cls), named))


_SERVED = {name: _served(cls) for name, cls in ACTION_LEARNERS.items()}


def action_learner_class(algorithm: str | None) -> type[Any]:
    """Return the class of an algorithm for models with actions; the recommended one for None.

    Raises:
        ActionLearnerError: if the algorithm needs labels, or is unknown.
    """
    name = RECOMMENDED.algorithm if algorithm is None else algorithm
    if name not in _SERVED:
        known = joined(map(quoted, _SERVED), "or")
        detail = f"got {quoted(name)}; a model with actions needs {known}"
        raise ActionLearnerError(detail, "learner.algorithm")
    return _SERVED[name]


def contributions(learner: AnyLearner, state: Any, vector: Contexts) -> FloatArray:
    """Return what each entry of a candidate's vector adds to its score, (m,)."""
    return cast(AnyActionLearner, learner).contributions(state, vector)


def probabilities(learner: AnyLearner, state: Any, candidates: Candidates) -> FloatArray:
    """Return the probability of each candidate, (m,)."""
    return cast(AnyActionLearner, learner).decide_unchecked(state, candidates)
