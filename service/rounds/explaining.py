"""Explains contexts and actions: the vectors that the learner sees, and each feature's contribution to each score."""

from collections.abc import Iterator, Sequence

import numpy as np

from learners.base import Contexts, FloatArray, State
from service import costs, kernels
from service.choice.actions import ActionChoice
from service.choice.choice import Choice
from service.choice.requests import PredictionRequest
from service.compute import Compute
from service.contexts.kind import FeatureEntry
from service.error_messages.values import counted
from service.errors import BatchTooLargeError
from service.json_values import JsonObject
from service.models.model import Model
from service.replicas.replica import Replica
from service.schemas.reports import (
    ActionFeature,
    BaseRatesAnswer,
    ExplainAnswer,
    ExplainedAction,
    ExplainedFeature,
    ExplainRequest,
)

_MOST_FEATURES = 50_000  # maximum features of all actions in an answer, which is then about 8 MB long


async def explain(replica: Replica, compute: Compute, request: ExplainRequest, most_numbers: int) -> ExplainAnswer:
    """Explain a context, or actions in it, with a state that includes every round acknowledged before the call."""
    asked, run = (
        PredictionRequest(request.context, None, False, actions=request.actions),
        compute.run_in_thread_if_costly,
    )
    await kernels.wait_for(replica.model)
    async with replica.lock:
        await replica.catch_up_locked()
        model, state, seen = replica.model, replica.state, replica.round_count
        choice = model.choice
        parsed = await run(choice.reading_cost(asked, costs.INLINE), model.name, choice.parse, asked)
        cost = choice.deciding_cost([parsed])
        if isinstance(choice, ActionChoice):
            cost += _check_entries(parsed) * costs.EXPLAINED_FEATURE
            return await run(cost, model.name, _explained_actions, model, choice, state, parsed, seen)
        size = choice.contexts.size(parsed.context) + 1
        _check_size(size, len(model.definition.labels), most_numbers)
        cost += size * (costs.EXPLAINED_FEATURE + len(model.definition.labels) * costs.EXPLAINED_NUMBER)
        return await run(cost, model.name, _explained, model, state, parsed, seen)


def _check_size(size: int, labels: int, most_numbers: int) -> None:
    if size * labels > most_numbers:
        most = most_numbers // labels - 1
        detail = f"got {counted(size - 1, 'features')}, for {labels} labels each; must be at most {most}"
        raise BatchTooLargeError(f"{detail} to be explained", "context")


def _check_entries(request: PredictionRequest) -> int:
    entries, actions = (0, ()) if request.parsed is None else (request.parsed.entries, request.parsed.actions)
    if (total := entries + len(actions)) > _MOST_FEATURES:
        detail = f"got {counted(total, 'features')} of all actions, products and intercepts included"
        raise BatchTooLargeError(f"{detail}; must be at most {_MOST_FEATURES:,} to be explained", "actions")
    return entries


def _explained_actions(
    model: Model, choice: ActionChoice, state: State, request: PredictionRequest, seen: int
) -> ExplainAnswer:
    candidates, ids = choice.candidates([request], choice.cost_weight(state)), list(choice.positions(request))
    sent, prepared = candidates.contexts, choice.prepared(candidates.contexts)
    actions, scores = list[ExplainedAction](), list[float]()
    for i, sent_features in enumerate(choice.candidate_features(request)):
        vector = prepared.rows(i, i + 1)
        added = choice.contributions(state, vector)
        shares = _shares(choice, sent_features, sent.rows(i, i + 1), vector, added[:, np.newaxis])
        features = [
            ActionFeature(**_described(feature), contribution=0.0 if share is None else float(share[0]))
            for feature, share in shares
        ]
        actions.append(ExplainedAction(id=ids[i], features=features))
        scores.append(float(added.sum()))
    return ExplainAnswer(
        model=model.name,
        rounds_seen=seen,
        features=[],
        actions=actions,
        scores=dict(zip(ids, scores, strict=True)),
        distribution=_by_label(ids, choice.decide(state, candidates)[0]),
    )


def _explained(model: Model, state: State, request: PredictionRequest, seen: int) -> ExplainAnswer:
    choice, labels = model.choice, model.definition.labels
    candidates = choice.candidates([request], choice.cost_weight(state))
    prepared, active = choice.prepared(candidates.contexts), [label not in model.retired for label in labels]
    labels = [label for label in labels if label not in model.retired]
    added = model.learner.contributions(state, prepared)
    added = None if added is None else added[:, active]
    shares = _shares(choice, choice.contexts.feature_entries(request.context), candidates.contexts, prepared, added)
    distribution = None
    if choice.answers.has_distribution:
        distribution = choice.distribution(request, choice.decide(state, candidates)[0], candidates.eligible)
    return ExplainAnswer(
        model=model.name,
        rounds_seen=seen,
        features=[
            ExplainedFeature(**_described(feature), contributions=None if share is None else _by_label(labels, share))
            for feature, share in shares
        ],
        scores=None if added is None else _by_label(labels, added.sum(axis=0)),
        distribution=distribution,
        base_rates=_base_rates(model, state, labels, active),
    )


def _base_rates(model: Model, state: State, labels: Sequence[str], active: Sequence[bool]) -> BaseRatesAnswer | None:
    found = model.learner.base_rates(state)
    if found is None:
        return None
    return BaseRatesAnswer(rates=_by_label(labels, found.rates[list(active)]), weight=found.weight)


def _shares(
    choice: Choice, features: Sequence[FeatureEntry], sent: Contexts, prepared: Contexts, added: FloatArray | None
) -> Iterator[tuple[FeatureEntry, FloatArray | None]]:
    """Yield each feature, as prepared for the learner, with its contribution to each score, (K,); None without `added`.

    Features with the same index share the contribution of the entry there, in proportion to their values.
    """
    positions = {index: position for position, index in enumerate(sent.indices.tolist())}
    for feature in features:
        position = positions[feature.at]
        total = sent.values[position]
        share = feature.value / total if total else 1.0
        value = float(prepared.values[position] * share)
        yield feature._replace(value=value), None if added is None else added[position] * share
    if choice.preparation.intercept:
        constant = FeatureEntry("intercept", choice.preparation.n_features, choice.preparation.constant)
        yield constant, None if added is None else added[-1]


def _described(feature: FeatureEntry) -> JsonObject:
    return {"name": feature.name, "index": feature.at, "sign": feature.sign, "value": feature.value}


def _by_label(labels: Sequence[str], numbers: FloatArray) -> dict[str, float]:
    return dict(zip(labels, numbers.tolist(), strict=True))
