"""The use cases that create, read, change and delete models, and read their logs."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import cache
from typing import Any

import pydantic

from learners.answers import answer_kind
from learners.base import AnyLearner, Problem
from learners.registry import ALL_LEARNERS, RECOMMENDED
from service import costs
from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import InvalidInputError, ModelExistsError, ModelNotFoundError, StoreUnavailableError
from service.models.changes import change_of
from service.models.learner_choice import listed_sets
from service.models.model import Limits, Model, new_model
from service.models.policies import learn_implied, stored_policies
from service.models.reading import reading_cost
from service.models.summaries import Summary, encoded_summary
from service.registry import changing
from service.registry.descriptions import Described, described, history_of
from service.registry.open_predictions import PredictionPage, page_of
from service.registry.round_log import LogReader, moment
from service.schemas import models as schemas
from service.schemas.models import ModelDefinition, ModelPatch
from service.schemas.rounds import RoundLine
from service.store.capabilities import Store
from service.store.stored_models import ListedModel, StoredModel, Version, digest_at, digests_of
from service.store.values import Damage, NameQuota

_ATTEMPTS = 20  # maximum attempts to change a model while others change it
_MOST_NOTES = 10  # maximum damage notes in the description of a model


async def stored_under(store: Store, name: str) -> StoredModel:
    """Return the model with a name; raise `ModelNotFoundError` if there is none."""
    stored = await store.get_model(name)
    if stored is None:
        raise missing(name)
    return stored


def missing(name: str) -> ModelNotFoundError:
    """Return the error for a model that does not exist."""
    return ModelNotFoundError(f"there is no model {quoted(name)}", "name")


async def make_change(store: Store, name: str, change: Callable[[StoredModel], Awaitable[bool]]) -> None:
    """Call `change` with the stored model; if it returns False, because another change came first, try again."""
    # Try again even if the request names a version: the other change may be an earlier attempt of the same request.
    for _ in range(_ATTEMPTS):
        stored = await stored_under(store, name)
        if await change(stored):
            return
    raise StoreUnavailableError(f"model {quoted(name)} changes too often; try again")


class ModelRegistry:
    """Manages the models of a store; calls `forget` with the name of each deleted model."""

    def __init__(self, environment: Environment, limits: Limits, forget: Callable[[str], None]) -> None:
        self._store, self._compute, self._models = environment.store, environment.compute, environment.models
        self._environment, self._now, self._new_id = environment, environment.now, environment.new_id
        self._limits, self._forget = limits, forget

    async def create(self, definition: ModelDefinition, quota: NameQuota | None = None) -> Described:
        """Create a model; return its description.

        Raise `ModelExistsError` if the name is taken, or `TooManyModelsError` if the quota allows no further model.
        """
        policies = definition.model_dump(mode="json", include=set(schemas.POLICIES), exclude_unset=True)
        definition = definition.model_copy(update=learn_implied(policies))
        run, cost = self._compute.run_in_thread_if_costly, len(definition.labels) * costs.DEFINITION_LABEL
        cost += listed_sets(definition.learner) ** 2 * costs.DEFINITION_PAIR
        model, text, summary = await run(cost, definition.name, self._written, definition, self._new_id())
        now = self._now()
        if quota is not None:
            await self._store.reserve_name(definition.name, quota)
        if not await self._store.create_model(model.key, text, now, summary, stored_policies(model.definition)):
            raise ModelExistsError(f"a model named {quoted(definition.name)} already exists", "name")
        changing.log_warnings(model)
        return described(StoredModel(model.key, text, now, 0, 0, 0, digests=model.digests), model)

    async def get(self, name: str) -> Described:
        """Describe the model with this name."""
        stored = await stored_under(self._store, name)
        found = (await self._store.read_damage(stored.key)).found[:_MOST_NOTES]
        answer, version = described(stored, await self._models.read(stored))
        return Described(answer.model_copy(update={"damage": [_note(each) for each in found] or None}), version)

    async def change(self, name: str, patch: ModelPatch, versions: Collection[str], by: str | None) -> Described:
        """Change a model if its current version is among `versions` (`*`: any); return its new description."""
        await make_change(self._store, name, lambda stored: self._change(stored, patch, versions, by))
        return await self.get(name)

    async def _change(self, stored: StoredModel, patch: ModelPatch, versions: Collection[str], by: str | None) -> bool:
        model = await self._models.read(stored)
        if not changing.is_current(stored, versions):
            if changing.is_previous(stored, versions) and await self._is_repeated(stored, patch, by):
                return True
            raise changing.stale(stored)
        change = change_of(patch, model.definition, self._now(), by)
        if change is None:
            return True
        try:
            changed = await changing.changed_model(self._compute, stored, model, change, self._limits)
        except InvalidInputError:
            if "*" in versions and await self._is_repeated(stored, patch, by):  # made before; its answer was lost
                return True
            raise
        done = await changing.write_change(self._store, stored, model, changed, change)
        if done:
            changing.log_warnings(changed, model)
        return done

    async def _is_repeated(self, stored: StoredModel, patch: ModelPatch, by: str | None) -> bool:
        if not stored.history:
            return False
        before = await self._models.read(stored, len(stored.history) - 1)
        try:
            asked = change_of(patch, before.definition, self._now(), by)
        except InvalidInputError:  # then the request was refused before, too
            return False
        return asked is not None and changing.is_repeated(stored, asked)

    def _written(self, definition: ModelDefinition, incarnation: str) -> tuple[Model, str, str]:
        model = new_model(definition, incarnation, self._limits)
        left_out = {"actions" if definition.actions is None else "labels"}
        text = model.definition.model_dump_json(exclude=left_out)
        model = dataclasses.replace(model, digests=digests_of([text]))
        return model, text, encoded_summary(model, text)

    async def delete(self, name: str, versions: Collection[str] = ("*",)) -> None:
        """Delete a model and its log if its current version is among `versions` (`*`: any)."""
        version = None
        if "*" not in versions:
            stored = await stored_under(self._store, name)
            if not changing.is_current(stored, versions):
                raise changing.stale(stored)
            version = Version(stored.key.incarnation.encode(), digest_at(stored.digests, len(stored.history)))
        if not await self._store.delete_model(name, version):
            raise missing(name) if version is None else changing.stale(await stored_under(self._store, name))
        self._forget(name)

    async def rounds(self, name: str, after: int, limit: int) -> AsyncIterator[Sequence[RoundLine]]:
        """Return up to `limit` readable rounds of the log after round `after`, oldest first, in pages."""
        model = await self._models.read(await stored_under(self._store, name))
        return await LogReader(model, self._store, self._compute).read(after, limit)

    async def changes(self, name: str, after: int, limit: int) -> schemas.ChangeList:
        """Return up to `limit` changes of a model after change `after`, oldest first."""
        stored = await stored_under(self._store, name)
        return await self._compute.run_in_thread_if_costly(reading_cost(stored), name, history_of, stored, after, limit)

    async def predictions(self, name: str, cursor: str, limit: int) -> PredictionPage:
        """Return a page of the predictions that have no round yet, as `page_of` does."""
        model = await self._models.read(await stored_under(self._store, name))
        return await page_of(self._environment, model, cursor, limit)


@cache
def describe_learners() -> schemas.LearnerList:
    """Describe every learner, with its guarantee and the JSON Schema of its hyperparameters."""
    return schemas.LearnerList(learners=[_description(cls) for _, cls in sorted(ALL_LEARNERS.items())])


def _description(cls: type[Any]) -> schemas.LearnerDescription:
    schema = pydantic.TypeAdapter(cls).json_schema()
    schema.pop("$defs", None)
    schema["properties"].pop("problem")
    schema["description"] = schema["description"].partition(" Raises `")[0]
    schema["required"] = [name for name in schema.get("required", []) if name != "problem"]
    default: AnyLearner = cls(problem=Problem(n_labels=3, n_features=1))
    return schemas.LearnerDescription(
        algorithm=cls.algorithm,
        answer=answer_kind(cls),
        summary=(cls.__doc__ or "").partition("\n")[0],
        guarantee=default.guarantee,
        norm=cls.norm_policy,
        intercept=cls.intercept,
        norm_bound_on="length" if cls.context_norm == "euclidean" else "entries",
        accepts_rewards=cls.accepts_rewards,
        labels_grow=cls.labels_grow,
        recommended=cls is RECOMMENDED,
        hyperparameters=schema,
    )


def listed_answer(listed: ListedModel, summary: Summary) -> schemas.ModelSummary:
    """Describe a model in a list."""
    return schemas.ModelSummary(
        name=listed.name,
        features=summary.features,
        actions=summary.actions,
        learner=summary.learner,
        **schemas.policies_of(summary),
        created_at=moment(listed.created_at),
        rounds_seen=listed.round_count,
        predictions=listed.predictions,
        correct=listed.correct,
        total_reward=listed.correct + listed.partial,
        abstained=listed.abstained,
        label_count=summary.label_count,
    )


def _note(damage: Damage) -> schemas.DamageNote:
    return schemas.DamageNote(
        what="snapshot" if damage.snapshot else "rounds",
        first=damage.first,
        last=damage.last,
        reason=damage.reason,
        found_at=moment(damage.found_at or 0.0),
    )
