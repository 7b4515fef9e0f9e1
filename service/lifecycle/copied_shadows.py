"""The shadows in a model's file: their definitions, states and comparisons."""

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pydantic

from learners.base import InvalidStateError
from learners.codec import encode_state
from service.environment import Environment
from service.errors import (
    InvalidInputError,
    ModelFileError,
    ModelNotFoundError,
    NewerVersionError,
    StoreCorruptError,
    StoreFullError,
    StoreUnavailableError,
    WagerError,
)
from service.lifecycle.import_validation import foreign_state
from service.lifecycle.model_file import ExportedShadow, ModelFile, as_file_error
from service.models.model import Limits, Model
from service.schemas.models import LearnerChoice
from service.shadows.comparison import Sums, decode_sums
from service.shadows.definition import Definition, complete_choice, read_definition
from service.shadows.replica import ShadowReplica
from service.store.stored_models import StoredModel
from service.store.values import CopiedShadow, Snapshot, StoredShadow

_log = logging.getLogger(__name__)

_CATCH_UP_SECONDS = 2.0  # the longest that an export waits for each shadow that lags
_OF_SUMS = pydantic.TypeAdapter(Sums)


class FoundShadow(NamedTuple):
    """A shadow, and a snapshot of its state, which may lack the last rounds; None if the state cannot be read."""

    stored: StoredShadow
    snapshot: Snapshot | None


async def find_shadows(environment: Environment, stored: StoredModel) -> list[FoundShadow]:
    """Return the shadows of a model, after each has folded its tail for up to `_CATCH_UP_SECONDS`."""
    if not (shadows := await environment.store.read_shadows(stored.key)):
        return []
    model = await environment.models.read(stored)
    return [FoundShadow(each, await _caught_up(environment, model, each)) for each in shadows]


async def _caught_up(environment: Environment, model: Model, shadow: StoredShadow) -> Snapshot | None:
    ends_at = environment.monotonic() + _CATCH_UP_SECONDS
    try:
        replica = ShadowReplica(model, environment.store, environment.compute, shadow)
        await replica.advance(lambda: environment.monotonic() < ends_at)
        await replica.snapshot()  # so that another attempt continues from here
        return await replica.current()
    except (StoreUnavailableError, StoreFullError, ModelNotFoundError):
        raise
    except WagerError as error:
        # It is exported without a state, so its copy starts again. The error must not stop the export.
        _log.warning("shadow %s of model %s: %s", shadow.name, model.name, error.detail)
        return None


def have_seen(found: Sequence[FoundShadow], model: Snapshot) -> bool:
    """Check whether all readable shadows have seen exactly the changes that the model's snapshot has seen."""
    return all(each.snapshot is None or each.snapshot.digest == model.digest for each in found)


def exported_shadows(
    found: Sequence[FoundShadow], model: Snapshot
) -> tuple[list[ExportedShadow], Mapping[str, memoryview]]:
    """Return the entries of a file for the shadows of a model, and their encoded states by name.

    A shadow that is unreadable, or has seen other changes or more rounds than `model`, is exported without a state, so
    its copy starts again.
    """
    exported, states = list[ExportedShadow](), dict[str, memoryview]()
    for shadow, snapshot in found:
        fields: dict[str, Any] = {"name": shadow.name, "restarts": shadow.restarts + 1}
        if snapshot is not None and snapshot.digest == model.digest and snapshot.round_count <= model.round_count:
            comparison = json.loads(snapshot.statistics)
            fields |= {"restarts": shadow.restarts, "rounds": snapshot.round_count, "comparison": comparison}
            states[shadow.name] = memoryview(snapshot.state)
        exported.append(ExportedShadow.model_construct(**fields, **read_definition(shadow).model_dump()))
    return exported, states


def checked_shadows(file: ModelFile, model: Model, limits: Limits) -> tuple[CopiedShadow, ...]:
    """Return the shadows in a file, for the new model.

    The file has no rounds, so the last rounds of the model count as skipped if a shadow's state lacks them. Raises
    `ModelFileError` if a shadow is invalid, or `NewerFileError` if a newer version wrote its learner or comparison.
    """
    shadows = {each.name: each for each in file.model.shadows}
    with_state = {each.name for each in shadows.values() if each.rounds is not None}
    if len(shadows) < len(file.model.shadows) or file.shadows.keys() != with_state:
        raise ModelFileError("a shadow occurs twice, lacks its state, or is not described")
    try:
        return tuple(_checked(file, each, model, limits, number) for number, each in enumerate(shadows.values()))
    except (NewerVersionError, StoreCorruptError, InvalidInputError) as error:
        raise as_file_error(error) from error


def _checked(file: ModelFile, exported: ExportedShadow, model: Model, limits: Limits, number: int) -> CopiedShadow:
    try:
        choice = LearnerChoice(**exported.learner)
    except (pydantic.ValidationError, TypeError) as error:
        raise ModelFileError(f"the learner of its shadow {exported.name!r} cannot be read") from error
    learner = complete_choice(model, choice, limits)
    definition = Definition(learner=learner, at=exported.at, by=exported.by)
    snapshot = None if exported.rounds is None else _checked_snapshot(file, exported, model, definition)
    id_ = f"{model.key.incarnation}-{number}"
    return CopiedShadow(exported.name, id_, definition.encode(), exported.restarts, snapshot)


def _checked_snapshot(file: ModelFile, exported: ExportedShadow, model: Model, definition: Definition) -> Snapshot:
    rounds, learner, sums = file.model.rounds, model.shadowed_by(definition.choice).learner, _checked_sums(exported)
    lacking = rounds - (exported.rounds or 0)
    if lacking < 0 or sums.rounds > rounds or not 1 <= sums.since_round <= rounds + 1:
        raise ModelFileError(f"its shadow {exported.name!r} has more rounds than the model")
    try:
        state = foreign_state(learner, file.shadows[exported.name], decides=True)
        encoded = encode_state(learner, state)
    except InvalidStateError as error:
        raise ModelFileError(f"the state of its shadow {exported.name!r}: {error}") from error
    statistics = dataclasses.replace(sums, skipped=sums.skipped + lacking).encode()
    return Snapshot(rounds, encoded, None, statistics, 0, model.change_count, model.digest)


def _checked_sums(exported: ExportedShadow) -> Sums:
    try:
        sums = decode_sums(json.dumps(exported.comparison).encode())
        _OF_SUMS.validate_json(json.dumps(dataclasses.asdict(sums)), strict=True)  # strict: `true` does not pass for 1
    except ValueError as error:
        raise ModelFileError(f"the comparison of its shadow {exported.name!r} cannot be read") from error
    return sums
