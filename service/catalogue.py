"""The use cases around models: create, read, list, delete, and read their logs."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, Literal

import pydantic

from learners.answers import answer_kind
from learners.base import NO_LABEL, AnyLearner, Contexts
from learners.registry import ALL_LEARNERS, RECOMMENDED
from service.answers import NOTHING
from service.auth import Names
from service.desk import Outside
from service.errors import ModelExistsError, ModelNotFoundError
from service.model import Limits, Model, hyperparameters, new_model, reading_cost, stored_model
from service.schemas import (
    DamageNote,
    LearnerDescription,
    LearnerList,
    ModelAnswer,
    ModelDefinition,
    ModelList,
    RoundLine,
)
from service.store.base import LogEntry, ModelKey, StoredModel
from service.store.damage import Damage
from service.store.ids import id_of
from service.store.reading import read_page
from service.store.records import Table

_MOST_NOTES = 10
"""Of damage, beside a model."""

_COST_PER_LABEL = 1_000  # multiply-adds in the time that checking and writing a label takes


class Catalogue:
    """All models of a store.

    Args:
        outside: store, threads, clock and ids.
        limits: what a new model may take.
        forget: called with the name of each model that is deleted.
    """

    def __init__(self, outside: Outside, limits: Limits, forget: Callable[[str], None]) -> None:
        self._store = outside.store
        self._compute = outside.compute
        self._now = outside.now
        self._new_id = outside.new_id
        self._limits = limits
        self._forget = forget

    async def create(self, definition: ModelDefinition) -> ModelAnswer:
        """Stores a new model.

        Raises:
            ModelExistsError: if the name is taken.
            InvalidInputError: if the learner is unknown, refuses a hyperparameter, or would be too large or too slow.
        """
        cost, incarnation = len(definition.labels) * _COST_PER_LABEL, self._new_id()
        key, text = await self._compute.run_costly(cost, definition.name, self._written, definition, incarnation)
        created = await self._store.create_model(key, text, self._now())
        if not created:
            raise ModelExistsError(f"there is a model {definition.name!r} already", "name")
        return await self.get(definition.name)

    async def get(self, name: str) -> ModelAnswer:
        """The model of that name.

        Raises:
            ModelNotFoundError: if there is none.
        """
        stored = await self._stored(name)
        found = (await self._store.read_damage(stored.key)).found[:_MOST_NOTES]
        answer = await self._compute.run_costly(reading_cost(stored), name, _model_answer, stored)
        return answer.model_copy(update={"damage": [_note(each) for each in found] or None})

    def _written(self, definition: ModelDefinition, incarnation: str) -> tuple[ModelKey, str]:
        """The key and the definition of a new model, as they are stored."""
        model = new_model(definition, incarnation, self._limits)
        return model.key, model.definition.model_dump_json()

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
        self._forget(name)

    async def rounds(self, name: str, after: int, limit: int) -> Iterator[RoundLine]:
        """The first rounds behind a given one that the log still has and that can be read, oldest first.

        Raises:
            ModelNotFoundError: if there is no such model.
        """
        model = stored_model(await self._stored(name))
        while True:
            tail = await self._store.read_tail(model.key, after, limit)
            lines = islice((line for line in _round_lines(model, tail.entries) if line.round > after), limit)
            first = next(lines, None)
            if first is not None or not tail.entries:
                return chain(() if first is None else (first,), lines)
            after = tail.entries[-1].number  # none of these can be read

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
        guarantee=cls.guarantee,
        recommended=cls is RECOMMENDED,
        hyperparameters=schema,
    )


def _model_answer(stored: StoredModel) -> ModelAnswer:
    model = stored_model(stored)
    definition = model.definition
    return ModelAnswer(
        name=model.name,
        labels=definition.labels,
        features=definition.features,
        learner=hyperparameters(model.learner),
        window_seconds=definition.window_seconds,
        late_feedback=definition.late_feedback,
        retain_rounds=definition.retain_rounds,
        created_at=_moment(stored.created_at),
        rounds_seen=stored.rounds,
        predictions=stored.predictions,
        correct=stored.correct,
        damaged_rounds=stored.damaged,
    )


def _note(damage: Damage) -> DamageNote:
    what: Literal["rounds", "snapshot"] = "snapshot" if damage.snapshot else "rounds"
    found_at = _moment(damage.found_at or 0.0)
    return DamageNote(what=what, first=damage.first, last=damage.last, reason=damage.reason, found_at=found_at)


def _round_lines(model: Model, entries: list[LogEntry]) -> Iterator[RoundLine]:
    blocks, ends = [entry.block for entry in entries], [entry.number for entry in entries]
    for stretch in read_page(model.format, entries):
        if stretch.rows is not None:
            yield from _lines(model, *stretch.rows, lambda number: blocks[bisect_left(ends, number)])


def _lines(model: Model, table: Table, contexts: Contexts, block_of: Callable[[int], str]) -> Iterator[RoundLine]:
    for i, line in enumerate(table):
        (shown,), truth = model.answers.show(table["output"][i : i + 1]), table["truth"][i : i + 1]
        (right,) = [NOTHING] if (truth == NO_LABEL).all() else model.answers.show(truth)
        own = id_of(block_of(int(line["round"])), int(line["token"]))
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
