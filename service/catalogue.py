"""The use cases around models: create, read, list, delete, and read their logs."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pydantic

from learners.answers import answer_kind
from learners.base import NO_LABEL, AnyLearner, Problem
from learners.registry import ALL_LEARNERS, RECOMMENDED
from service.answers import NOTHING
from service.auth import Names
from service.errors import ModelExistsError, ModelNotFoundError
from service.learner_schemas import LearnerDescription, LearnerList
from service.model import Model, hyperparameters, new_model, stored_model
from service.schemas import (
    ModelAnswer,
    ModelDefinition,
    ModelList,
    RoundLine,
)
from service.store.base import LogEntry, Store, StoredModel
from service.store.ids import id_of


class Catalogue:
    """All models of a store.

    Args:
        store: where they are.
        now: seconds since the epoch.
        new_id: makes a new incarnation's name.
        max_state_bytes: the largest state a new model may have.
    """

    def __init__(self, store: Store, now: Callable[[], float], new_id: Callable[[], str], max_state_bytes: int) -> None:
        self._store = store
        self._now = now
        self._new_id = new_id
        self._max_state_bytes = max_state_bytes

    async def create(self, definition: ModelDefinition) -> ModelAnswer:
        """Stores a new model.

        Raises:
            ModelExistsError: if the name is taken.
            InvalidInputError: if the learner is unknown, refuses a hyperparameter, or would be too large.
        """
        model = new_model(definition, self._new_id(), self._max_state_bytes)
        created = await self._store.create_model(model.key, model.definition.model_dump_json(), self._now())
        if not created:
            raise ModelExistsError(f"there is a model {definition.name!r} already", "name")
        return await self.get(definition.name)

    async def get(self, name: str) -> ModelAnswer:
        """The model of that name.

        Raises:
            ModelNotFoundError: if there is none.
        """
        return _model_answer(await self._stored(name))

    async def list(self, cursor: str, limit: int, own: Names) -> ModelList:
        """A page of models, those after the cursor; only of these names, the cursor included."""
        found: list[StoredModel] = []
        after: str | None = max(cursor, own.before)
        while after is not None and len(found) < limit and not own.ended_by(after):
            page = await self._store.list_models(after, limit)
            found += [stored for stored in page.models if stored.key.name in own]
            after = page.next_cursor
        more = after is not None or len(found) > limit
        models = [_model_answer(stored) for stored in found[:limit]]
        return ModelList(models=models, next_cursor=models[-1].name if more and len(models) == limit else None)

    async def delete(self, name: str) -> None:
        """Deletes a model with its log.

        Raises:
            ModelNotFoundError: if there is none.
        """
        if not await self._store.delete_model(name):
            raise ModelNotFoundError(f"there is no model {name!r}", "name")

    async def rounds(self, name: str, after: int, limit: int) -> Iterator[RoundLine]:
        """The first rounds behind a given one that the log still has, oldest first.

        Raises:
            ModelNotFoundError: if there is no such model.
        """
        model = stored_model(await self._stored(name))
        tail = await self._store.read_tail(model.key, after, limit)
        lines = (line for line in _round_lines(model, tail.entries) if line.round > after)
        return islice(lines, limit)

    async def _stored(self, name: str) -> StoredModel:
        stored = await self._store.get_model(name)
        if stored is None:
            raise ModelNotFoundError(f"there is no model {name!r}", "name")
        return stored


def describe_learners() -> LearnerList:
    """Every learner with its guarantee and the JSON Schema of its hyperparameters."""
    return LearnerList(learners=[_description(cls) for _, cls in sorted(ALL_LEARNERS.items())])


def _description(cls: type[AnyLearner]) -> LearnerDescription:
    schema = pydantic.TypeAdapter(cls).json_schema()
    schema.pop("$defs", None)
    schema["properties"].pop("problem")
    schema["description"] = schema["description"].partition("\n\nRaises:")[0]
    schema["required"] = [name for name in schema.get("required", []) if name != "problem"]
    return LearnerDescription(
        algorithm=cls.algorithm,
        answer=answer_kind(cls),
        summary=(cls.__doc__ or "").partition("\n")[0],
        guarantee=_default(cls).guarantee,
        norm=cls.norm_policy,
        norm_bound_on="length" if cls.context_norm == "euclidean" else "entries",
        recommended=cls is RECOMMENDED,
        hyperparameters=schema,
    )


def _default(cls: type[Any]) -> AnyLearner:
    """The learner with its defaults, for the number of labels that every learner takes."""
    learner: AnyLearner = cls(problem=Problem(n_labels=3, n_features=1))
    return learner


def _model_answer(stored: StoredModel) -> ModelAnswer:
    model = stored_model(stored)
    definition = model.definition
    return ModelAnswer(
        name=model.name,
        labels=definition.labels,
        features=definition.features,
        learner=hyperparameters(model.learner),
        guarantee=model.learner.guarantee,
        window_seconds=definition.window_seconds,
        late_feedback=definition.late_feedback,
        retain_rounds=definition.retain_rounds,
        created_at=_moment(stored.created_at),
        rounds_seen=stored.rounds,
        predictions=stored.predictions,
        correct=stored.correct,
    )


def _round_lines(model: Model, entries: list[LogEntry]) -> Iterator[RoundLine]:
    table, contexts = model.format.rows([entry.rounds for entry in entries])
    blocks, ends = [entry.block for entry in entries], [entry.number for entry in entries]
    for i, line in enumerate(table):
        (shown,), truth = model.answers.show(table["output"][i : i + 1]), table["truth"][i : i + 1]
        (right,) = [NOTHING] if (truth == NO_LABEL).all() else model.answers.show(truth)
        own = id_of(blocks[bisect_left(ends, line["round"])], int(line["token"]))
        yield RoundLine(
            round=int(line["round"]),
            prediction_id=f"{model.name}:{own}",
            label=shown.label,
            labels=shown.labels,
            propensity=float(line["propensity"]) or None,
            correct=bool(line["correct"]),
            true_label=right.label,
            true_labels=right.labels,
            context=model.contexts.show(contexts, i),
            rounds_seen=int(line["rounds_seen"]),
            predicted_at=_moment(line["predicted_at"]),
            feedback_at=_moment(line["feedback_at"]),
        )


def _moment(seconds: Any) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
