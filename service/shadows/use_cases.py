"""The use cases that add, list and remove shadows."""

from service.environment import Environment
from service.error_messages.values import joined, quoted
from service.errors import ShadowNotFoundError, StoreCorruptError, TooManyShadowsError
from service.models.costs import costs_count
from service.models.model import Limits, Model
from service.models.reading import reading_cost
from service.models.rules import guarantee_of, moved_by
from service.registry.registry import stored_under
from service.registry.round_log import moment
from service.schemas.lifecycle import ComparisonAnswer, IntervalAnswer, ShadowAnswer
from service.schemas.models import LearnerChoice
from service.shadows.comparison import Compared, Sums, compare, decode_sums
from service.shadows.definition import Definition, complete_choice, read_definition
from service.store.keys import SHADOW_SLOTS
from service.store.stored_models import StoredModel
from service.store.values import Due, StoredShadow


class Shadows:
    """The shadows of all models."""

    def __init__(self, environment: Environment, limits: Limits) -> None:
        self._store = environment.store
        self._compute = environment.compute
        self._models = environment.models
        self._now = environment.now
        self._new_id = environment.new_id
        self._limits = limits

    async def put(self, name: str, shadow: str, choice: LearnerChoice, by: str | None) -> ShadowAnswer:
        """Add a shadow to a model, or replace the learner of an existing shadow; return the shadow.

        `choice` is None for the recommended learner. `by` is the id of the API key; None if no keys are required.

        Raises:
            ModelNotFoundError: if the model does not exist.
            ShadowLearnerError: as `complete_choice`.
            TooManyShadowsError: if the model already has `SHADOW_SLOTS` other shadows.
            InvalidInputError: if the learner is unknown, does not fit the model, or is too large or too slow.
        """
        stored, model = await self._model(name)
        learner = await self._compute.run_in_thread_if_costly(
            reading_cost(stored), name, complete_choice, model, choice, self._limits
        )
        existing = await self._store.read_shadows(stored.key)
        if any(each.name == shadow and read_definition(each).learner == learner for each in existing):
            return await self.get(name, shadow)
        text = Definition(learner=learner, at=self._now(), by=by).encode()
        if not await self._store.put_shadow(stored.key, shadow, self._new_id(), text):
            names = joined([quoted(each.name) for each in existing], "and")
            raise TooManyShadowsError(f"the model has {SHADOW_SLOTS} shadows, {names}; remove one first", "shadow")
        return await self.get(name, shadow)

    async def get(self, name: str, shadow: str) -> ShadowAnswer:
        """Return a shadow.

        Raises:
            ModelNotFoundError: if the model does not exist.
            ShadowNotFoundError: if it has no such shadow.
        """
        found = [each for each in await self.all(name) if each.name == shadow]
        if not found:
            raise _unknown(shadow)
        return found[0]

    async def all(self, name: str) -> list[ShadowAnswer]:
        """Return the shadows of a model, ordered by name.

        Raises:
            ModelNotFoundError: if the model does not exist.
        """
        stored, model = await self._model(name)
        shadows = await self._store.read_shadows(stored.key)
        if shadows:  # a fail-over may have removed the model from the list of due models
            await self._store.watch(Due.SHADOWS, [stored.key])
        return [_answer(stored, model, each, await self._sums(stored, each)) for each in shadows]

    async def drop(self, name: str, shadow: str) -> None:
        """Remove a shadow.

        Raises:
            ModelNotFoundError: if the model does not exist.
            ShadowNotFoundError: if it has no such shadow.
        """
        stored, _ = await self._model(name)
        if not await self._store.drop_shadow(stored.key, shadow):
            raise _unknown(shadow)

    async def _model(self, name: str) -> tuple[StoredModel, Model]:
        stored = await stored_under(self._store, name)
        return stored, await self._models.read(stored)

    async def _sums(self, stored: StoredModel, shadow: StoredShadow) -> Sums:
        """Return the sums of a shadow; empty sums if it has no snapshot, or if the stored sums are damaged."""
        try:
            written = await self._store.read_comparison(stored.key, shadow)
            return decode_sums(written) if written else Sums(since_round=shadow.since_rounds + 1)
        except (StoreCorruptError, ValueError):
            return Sums(since_round=shadow.since_rounds + 1)


def _answer(stored: StoredModel, model: Model, shadow: StoredShadow, sums: Sums) -> ShadowAnswer:
    definition = read_definition(shadow)
    compared, learner = compare(sums), model.shadowed_by(definition.choice).learner
    weighs = learner.weighs_costs and costs_count(model.definition)
    return ShadowAnswer(
        name=shadow.name,
        learner=definition.learner,
        guarantee=guarantee_of(learner, moved_by(model.definition), weighs_costs=weighs),
        created_at=moment(definition.at),
        by=definition.by,
        since_round=sums.since_round,
        rounds_seen=shadow.folded,
        lag=max(0, stored.round_count - shadow.folded),
        compared_rounds=sums.rounds,
        skipped_rounds=sums.skipped,
        restarts=shadow.restarts,
        comparison=None if compared is None else _comparison(compared, sums),
    )


def _comparison(compared: Compared, sums: Sums) -> ComparisonAnswer:
    return ComparisonAnswer(
        served=compared.served,
        ips=compared.ips,
        snips=compared.snips,
        difference=compared.difference,
        normal_interval=IntervalAnswer(low=compared.normal.low, high=compared.normal.high),
        bernstein_interval=IntervalAnswer(low=compared.bernstein.low, high=compared.bernstein.high),
        effective_sample_size=compared.effective_sample_size,
        largest_weight=sums.largest_weight,
        mean_weight=compared.mean_weight,
        clipped_rounds=sums.clipped,
        verdict=compared.verdict,
        warnings=compared.warnings,
    )


def _unknown(shadow: str) -> ShadowNotFoundError:
    return ShadowNotFoundError(f"the model has no shadow {quoted(shadow)}", "shadow")
