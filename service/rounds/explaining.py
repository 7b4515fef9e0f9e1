"""Explains contexts and actions: the vectors that the learner sees, and what each feature adds to each score."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from learners.base import Contexts, FloatArray
from service import costs
from service.choice.actions import ActionChoice
from service.choice.choice import Choice
from service.choice.requests import PredictionRequest
from service.contexts.kind import Part
from service.environment import Environment
from service.error_messages.values import counted
from service.errors import BatchTooLargeError
from service.models.model import Model
from service.replicas.replica import Replica
from service.schemas.reports import ActionFeature, ExplainAnswer, ExplainedAction, ExplainedFeature, ExplainRequest

_MOST_FEATURES = 50_000  # maximum features of all actions of an answer, about 8 MB


class Explainer:
    """Explains contexts with the state of one replica; `most_numbers` limits the contributions in an answer."""

    def __init__(self, replica: Replica, environment: Environment, most_numbers: int) -> None:
        self._replica = replica
        self._compute = environment.compute
        self._most_numbers = most_numbers

    async def explain(self, request: ExplainRequest) -> ExplainAnswer:
        """Explain a context with the state after every round acknowledged before the call."""
        asked = PredictionRequest(request.context, None, False, actions=request.actions)
        async with self._replica.lock:
            await self._replica.catch_up_locked()
            model, state, seen = self._replica.model, self._replica.state, self._replica.round_count
            choice, run = model.choice, self._compute.run_in_thread_if_costly
            read = await run(choice.reading_cost(asked, costs.INLINE), model.name, choice.read, asked)
            cost = choice.deciding_cost([read])
            if isinstance(choice, ActionChoice):
                cost += _check_entries(read) * costs.EXPLAINED_FEATURE
                return await run(cost, model.name, _explained_actions, model, choice, state, read, seen)
            size = choice.contexts.size(read.context) + 1
            self._check_size(size, model)
            cost += size * (costs.EXPLAINED_FEATURE + len(model.definition.labels) * costs.EXPLAINED_NUMBER)
            return await run(cost, model.name, _explained, model, state, read, seen)

    def _check_size(self, size: int, model: Model) -> None:
        labels = len(model.definition.labels)
        if size * labels > self._most_numbers:
            most = self._most_numbers // labels - 1
            detail = f"got {counted(size - 1, 'features')}, for {labels} labels each; must be at most {most}"
            raise BatchTooLargeError(f"{detail} to be explained", "context")


def _check_entries(request: PredictionRequest) -> int:
    """Return the number of features of all actions, if that is not too many to explain."""
    entries, actions = (0, ()) if request.read is None else (request.read.entries, request.read.actions)
    if entries + len(actions) > _MOST_FEATURES:
        detail = f"got {counted(entries, 'features')} of all actions, products with the context included"
        raise BatchTooLargeError(f"{detail}; must be at most {_MOST_FEATURES:,} to be explained", "actions")
    return entries


def _explained_actions(
    model: Model, choice: ActionChoice, state: Any, request: PredictionRequest, seen: int
) -> ExplainAnswer:
    candidates, ids = choice.candidates([request]), list(choice.positions(request))
    sent, prepared = candidates.contexts, choice.prepared(candidates.contexts)
    actions, scores = list[ExplainedAction](), list[float]()
    for i, parts in enumerate(choice.candidate_parts(request)):
        vector = prepared.rows(i, i + 1)
        added = choice.contributions(state, vector)
        shares = _shares(choice, parts, sent.rows(i, i + 1), vector, added[:, np.newaxis])
        actions.append(ExplainedAction(id=ids[i], features=[_action_feature(*each) for each in shares]))
        scores.append(float(added.sum()))
    return ExplainAnswer(
        model=model.name,
        rounds_seen=seen,
        features=[],
        actions=actions,
        scores=dict(zip(ids, scores, strict=True)),
        distribution=_by_label(ids, choice.decide(state, candidates)[0]),
    )


def _action_feature(part: Part, added: FloatArray | None) -> ActionFeature:
    contribution = 0.0 if added is None else float(added[0])
    return ActionFeature(name=part.name, index=part.at, sign=part.sign, value=part.value, contribution=contribution)


def _explained(model: Model, state: Any, request: PredictionRequest, seen: int) -> ExplainAnswer:
    choice, labels = model.choice, model.definition.labels
    candidates = choice.candidates([request])
    prepared, active = choice.prepared(candidates.contexts), [label not in model.retired for label in labels]
    labels = [label for label in labels if label not in model.retired]
    added = model.learner.contributions(state, prepared)
    added = None if added is None else added[:, active]
    shares = _shares(choice, choice.contexts.parts(request.context), candidates.contexts, prepared, added)
    distribution = None
    if choice.answers.has_distribution:
        distribution = choice.distribution(request, choice.decide(state, candidates)[0], candidates.eligible)
    return ExplainAnswer(
        model=model.name,
        rounds_seen=seen,
        features=[_explained_part(labels, *each) for each in shares],
        scores=None if added is None else _by_label(labels, added.sum(axis=0)),
        distribution=distribution,
    )


def _shares(
    choice: Choice, parts: Sequence[Part], sent: Contexts, prepared: Contexts, added: FloatArray | None
) -> Iterator[tuple[Part, FloatArray | None]]:
    """Yield each feature as prepared, with its contributions (K,). Features with the same index share its entry."""
    positions = {index: position for position, index in enumerate(sent.indices.tolist())}
    for part in parts:
        position = positions[part.at]
        whole = sent.values[position]
        share = part.value / whole if whole else 0.0
        value = float(prepared.values[position] * share)
        yield part._replace(value=value), None if added is None else added[position] * share
    if choice.preparation.intercept:
        constant = Part("intercept", choice.preparation.n_features, choice.preparation.constant)
        yield constant, None if added is None else added[-1]


def _explained_part(labels: Sequence[str], part: Part, added: FloatArray | None) -> ExplainedFeature:
    contributions = None if added is None else _by_label(labels, added)
    return ExplainedFeature(
        name=part.name, index=part.at, sign=part.sign, value=part.value, contributions=contributions
    )


def _by_label(labels: Sequence[str], numbers: FloatArray) -> dict[str, float]:
    return dict(zip(labels, numbers.tolist(), strict=True))
