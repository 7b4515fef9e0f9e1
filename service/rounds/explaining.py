"""Explains contexts: the vector that the learner sees, and what each feature adds to the score of each label."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from learners.base import Contexts, FloatArray
from service.actions.errors import ActionsNotExplainedError
from service.contexts.kind import Part
from service.environment import Environment
from service.input_errors import BatchTooLargeError
from service.models.model import Model
from service.replicas.replica import Replica
from service.schemas.explanations import ExplainAnswer, ExplainedFeature
from service.wording.values import counted

_NUMBER_COST = 100
"""Cost of writing one number of the answer, in multiply-adds."""


class Explainer:
    """Explains contexts with the state of one replica.

    Args:
        replica: the replica whose state decides.
        environment: provides worker threads.
        most_numbers: maximum contributions in an answer.
    """

    def __init__(self, replica: Replica, environment: Environment, most_numbers: int) -> None:
        self._replica = replica
        self._compute = environment.compute
        self._most_numbers = most_numbers

    async def explain(self, given: Any) -> ExplainAnswer:
        """Return how the model sees a context, after every round whose feedback was acknowledged before the call.

        Raises:
            InvalidInputError: if the context does not fit the model.
            BatchTooLargeError: if the answer would have too many numbers.
            StoreError: if the store fails.
        """
        async with self._replica.lock:
            await self._replica.catch_up_locked()
            model = self._replica.model
            if model.vectors is not None:
                raise ActionsNotExplainedError("the model has actions; explanations are for labels", "name")
            context = model.contexts.check(given)
            model.norm.check(context)
            self._check_size(model.contexts.parts(context), model)
            learner, size = model.learner, model.contexts.size(context) + 1
            cost = learner.decide_cost(size) + size * len(model.definition.labels) * _NUMBER_COST
            seen, state = self._replica.round_count, self._replica.state
            return await self._compute.run_costly(cost, model.name, _explained, model, state, context, seen)

    def _check_size(self, parts: Sequence[Part], model: Model) -> None:
        labels = len(model.definition.labels)
        if (len(parts) + 1) * labels > self._most_numbers:
            most = self._most_numbers // labels
            detail = f"got {counted(len(parts), 'features')}, for {labels} labels each; must be at most {most}"
            raise BatchTooLargeError(f"{detail} to be explained", "context")


def _explained(model: Model, state: Any, context: Any, seen: int) -> ExplainAnswer:
    sent, labels = (
        model.contexts.gather([context]),
        [label for label in model.definition.labels if label not in model.retired],
    )
    prepared = model.prepared(sent)
    eligible = model.active[np.newaxis] if model.retired else None
    decisions, added = model.learner.decide(state, prepared, eligible), model.learner.contributions(state, prepared)
    added = None if added is None else added[:, model.active]
    return ExplainAnswer(
        model=model.name,
        rounds_seen=seen,
        features=[_explained_part(labels, *each) for each in _parts(model, context, sent, prepared, added)],
        scores=None if added is None else _by_label(labels, added.sum(axis=0)),
        distribution=_by_label(labels, decisions.distributions[0, model.active])
        if model.answers.has_distribution
        else None,
    )


def _parts(
    model: Model, context: Any, sent: Contexts, prepared: Contexts, added: FloatArray | None
) -> Iterator[tuple[Part, FloatArray | None]]:
    """Yield each feature as prepared, with its contributions (K,). Features with the same index share its entry."""
    positions = {index: position for position, index in enumerate(sent.indices.tolist())}
    for part in model.contexts.parts(context):
        position = positions[part.at]
        whole = sent.values[position]
        share = part.value / whole if whole else 0.0
        value = float(prepared.values[position] * share)
        yield part._replace(value=value), None if added is None else added[position] * share
    if model.preparation.intercept:
        constant = Part("intercept", model.preparation.n_features, model.preparation.constant)
        yield constant, None if added is None else added[-1]


def _explained_part(labels: Sequence[str], part: Part, added: FloatArray | None) -> ExplainedFeature:
    contributions = None if added is None else _by_label(labels, added)
    return ExplainedFeature(
        name=part.name, index=part.at, sign=part.sign, value=part.value, contributions=contributions
    )


def _by_label(labels: Sequence[str], numbers: FloatArray) -> dict[str, float]:
    return dict(zip(labels, numbers.tolist(), strict=True))
