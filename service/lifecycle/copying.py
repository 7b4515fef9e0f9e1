"""Clone, export and import: copies of a model with its state."""

import contextlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from learners.base import InvalidStateError
from learners.codec import encode_state
from service import __version__, errors
from service.environment import Environment
from service.error_messages.values import quoted
from service.json_values import JsonObject
from service.lifecycle.copied_shadows import FoundShadow, checked_shadows, exported_shadows, find_shadows, have_seen
from service.lifecycle.import_validation import checked_history, checked_imports, checked_statistics, foreign_state
from service.lifecycle.model_file import ExportedImport, ExportedModel, as_file_error, file_of, read_file
from service.models.changes import Change, Defined, Origin, check_policies
from service.models.model import Limits, Model, check_limits
from service.models.policies import check_closing, stored_policies
from service.models.reading import stored_model, unreadable_definition
from service.models.summaries import encoded_summary
from service.registry.changing import MOST_COPIES, check_history, log_warnings
from service.registry.descriptions import Described, described
from service.registry.registry import stored_under
from service.replicas.statistics import RoundStatistics, decode_statistics
from service.rounds.sessions import SessionCache
from service.store.stored_models import ModelKey, StoredModel, digest_at, digests_of
from service.store.values import Counts, ImportedSource, ModelCopy, NameQuota, Snapshot

_ATTEMPTS = 50  # attempts to read a state with matching import positions, while others import rounds

_SHADOW_ATTEMPTS = 5  # attempts to read shadows that have seen the same changes as the model


class _Source(NamedTuple):
    name: str
    definition: JsonObject
    history: tuple[str, ...]
    snapshot: Snapshot  # has seen exactly these changes
    imports: tuple[ImportedSource, ...] = ()  # the import positions of its rounds


class Copying:
    """Copies models with their states, but without their logs and open predictions. Only files include the shadows."""

    def __init__(self, environment: Environment, limits: Limits, sessions: SessionCache) -> None:
        self._environment, self._store, self._compute = environment, environment.store, environment.compute
        self._limits, self._sessions = limits, sessions

    async def clone(self, name: str, new: str, by: str | None, quota: NameQuota | None = None) -> Described:
        """Create a model with the definition, changes and state of another; return the new model's description."""
        await self._check_free(new)
        _, source = await self._source(name)
        change = Change(origin=Origin(kind="clone", model=name), at=self._environment.now(), by=by)
        key = ModelKey(new, self._environment.new_id())
        model, copy = await self._compute.run(new, _copy_of, source, key, change)
        check_history(copy.history, model.history_weight, MOST_COPIES)
        return await self._create(model, copy, quota)

    async def export(self, name: str) -> tuple[bytes | memoryview, ...]:
        """Return a model as a file, in parts. The shadows in it may lack rounds that arrived after they were read."""
        for _ in range(_SHADOW_ATTEMPTS):
            before = await stored_under(self._store, name)
            shadows = await find_shadows(self._environment, before)
            stored, source = await self._source(name)
            if stored.key == before.key and have_seen(shadows, source.snapshot):
                break
        if stored.key != before.key:  # the model was created again since: these are another incarnation's shadows
            shadows = []
        return await self._compute.run(name, _exported, stored, source, shadows)

    async def import_(self, name: str, data: memoryview, by: str | None, quota: NameQuota | None = None) -> Described:
        """Create a model from a file, and return its description.

        Raises `ModelFileError` if the file is not intact, or `NewerFileError` if a newer version wrote it.
        """
        await self._check_free(name)
        key, now = ModelKey(name, self._environment.new_id()), self._environment.now()
        copied = await self._compute.run(name, _imported, data, key, now, by, self._limits)
        return await self._create(*copied, quota)

    async def _check_free(self, name: str) -> None:
        if await self._store.get_model(name) is not None:
            raise errors.ModelExistsError(f"a model named {quoted(name)} already exists", "name")

    async def _source(self, name: str) -> tuple[StoredModel, _Source]:
        for _ in range(_ATTEMPTS):
            before = await self._store.read_imports((await stored_under(self._store, name)).key)
            model, snapshot = await self._sessions.current(name)
            stored = await stored_under(self._store, name)
            if stored.key != model.key:
                detail = f"model {quoted(name)} was deleted and created again during the copy"
                raise errors.ModelExistsError(detail, "name")
            imports = await self._store.read_imports(stored.key)
            history = stored.history[: snapshot.change_count]
            is_same = digest_at(stored.digests, snapshot.change_count) == snapshot.digest
            if is_same and _positions(before) == _positions(imports):
                # The state has exactly the imported rounds before these positions: they did not change.
                definition = await self._compute.run(name, _definition_in, stored)
                return stored, _Source(name, definition, history, snapshot, tuple(imports))
        detail = f"rounds are imported into model {quoted(name)} too fast for a copy; try again"
        raise errors.StoreUnavailableError(detail)

    async def _create(self, model: Model, copy: ModelCopy, quota: NameQuota | None) -> Described:
        now = self._environment.now()
        if quota is not None:
            await self._store.reserve_name(model.name, quota)
        if not await self._store.create_copy(model.key, copy, now):
            raise errors.ModelExistsError(f"a model named {quoted(model.name)} already exists", "name")
        log_warnings(model)
        with contextlib.suppress(errors.WagerError):  # loads the model, so that its statistics are published soon
            await self._sessions.use(model.name, "name", lambda session: session.replica.catch_up())
        return described(_stored(model.key, copy, now), model)


def _definition_in(stored: StoredModel) -> JsonObject:
    try:
        return dict(json.loads(stored.definition))
    except (ValueError, TypeError, RecursionError) as error:  # damaged after the session read it
        raise unreadable_definition(stored.key.name, error) from error


def _positions(imports: Sequence[ImportedSource]) -> dict[str, int]:
    return {each.source: each.position for each in imports}


def _stored(key: ModelKey, copy: ModelCopy, now: float) -> StoredModel:
    rounds, counts = copy.snapshot.round_count, copy.counts
    counters = StoredModel(key, copy.definition, now, rounds, rounds, counts.correct, partial=counts.partial)
    digests = digests_of((copy.definition, *copy.history))
    return counters._replace(history=copy.history, digests=digests, abstained=counts.abstained)


def _copy_of(source: _Source, key: ModelKey, origin: Change) -> tuple[Model, ModelCopy]:
    definition = json.dumps(source.definition | {"name": key.name}, separators=(",", ":"))
    history = (*source.history, origin.encode())
    snapshot = source.snapshot._replace(change_count=len(history))
    counts = _counts(decode_statistics(snapshot.statistics), snapshot.round_count)
    copy = ModelCopy(definition, history, "", snapshot, counts, imports=source.imports)
    model = stored_model(_stored(key, copy, origin.at))
    summary, policies = encoded_summary(model, definition), stored_policies(model.definition)
    return model, copy._replace(summary=summary, policies=policies, snapshot=snapshot._replace(digest=model.digest))


def _counts(statistics: RoundStatistics, rounds: int) -> Counts:
    """Return a model's counters, computed from its statistics, which may lack damaged rounds. None exceeds `rounds`."""
    correct, expired = min(statistics.correct, rounds), min(statistics.expired, rounds)
    partial = max(0.0, statistics.reward - statistics.correct)
    return Counts(correct, partial, expired, min(statistics.abstained, rounds))


def _exported(stored: StoredModel, source: _Source, found: Sequence[FoundShadow]) -> tuple[bytes | memoryview, ...]:
    shadows, states = exported_shadows(found, source.snapshot)
    model = ExportedModel.model_construct(
        name=source.name,
        definition=source.definition,
        changes=[json.loads(line) for line in source.history],
        rounds=source.snapshot.round_count,
        created_at=stored.created_at,
        imports=[ExportedImport.model_construct(**each._asdict()) for each in source.imports],
        shadows=shadows,
    )
    return file_of(model, source.snapshot.statistics, memoryview(source.snapshot.state), __version__, states)


def _imported(data: memoryview, key: ModelKey, now: float, by: str | None, limits: Limits) -> tuple[Model, ModelCopy]:
    file = read_file(data)
    origin = Change(origin=Origin(kind="import", model=file.model.name), at=now, by=by)
    statistics = checked_statistics(file.statistics, file.model.rounds)
    history = checked_history(file.model.changes)
    snapshot = Snapshot(file.model.rounds, b"", None, statistics)
    source = _Source(file.model.name, file.model.definition, history, snapshot, checked_imports(file.model.imports))
    try:
        model, copy = _copy_of(source, key, origin)
        check_policies(Defined(model.definition, model.retired), model.learner)
        check_closing(model.definition, model.learner)
    except (errors.NewerVersionError, errors.StoreCorruptError, errors.InvalidInputError) as error:
        raise as_file_error(error) from error
    check_history(copy.history, model.history_weight, MOST_COPIES)
    check_limits(model.learner, limits)
    try:
        state = foreign_state(model.learner, file.data, decides=model.definition.actions is None)
        encoded = encode_state(model.learner, state)
    except InvalidStateError as error:
        raise errors.ModelFileError(f"its state: {error}") from error
    shadows = checked_shadows(file, model, limits)
    return model, copy._replace(snapshot=copy.snapshot._replace(state=encoded), shadows=shadows)
