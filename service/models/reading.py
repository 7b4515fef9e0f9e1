"""Builds models from their stored form: a definition, then its changes in one pass."""

import dataclasses
import json
from collections import OrderedDict

import pydantic

from service import costs, errors
from service.compute import Compute
from service.error_messages.json_schemas import root_of
from service.error_messages.json_text import syntax_error, unreadable
from service.error_messages.validation import explain
from service.models.changes import Defined, after, read_change
from service.models.learner_choice import build_learner
from service.models.model import Model
from service.schemas.models import ModelDefinition
from service.store.stored_models import ModelKey, StoredModel, digest_at, digests_of

_UNKNOWN = {"extra_forbidden", "literal_error", "union_tag_invalid"}  # pydantic's errors for unknown fields or choices
_MOST_BYTES = 64 * 2**20  # approximate maximum bytes of a reader's cached models
_MODEL_BYTES, _BYTES_PER_CHARACTER = 20_000, 10  # estimated bytes: of any model, and more per character of JSON


def unreadable_definition(name: str, error: Exception) -> errors.StoreError:
    """Return the error for a model whose definition or changes cannot be read."""
    if is_newer(error):
        return errors.NewerVersionError(f"a newer version wrote the definition of model {name!r}: {reason_of(error)}")
    return errors.StoreCorruptError(f"the definition of model {name!r} cannot be read: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    """Explain why a definition cannot be read."""
    match error:
        case pydantic.ValidationError():
            return explain(error.errors(include_url=False)[0], root_of(ModelDefinition)).sentence("the definition")
        case errors.WagerError():
            return f"{error.field}: {error.detail}"
        case json.JSONDecodeError():
            return syntax_error(error.msg, error.pos)
    return unreadable(error)


def is_newer(error: Exception) -> bool:
    """Check whether only unknown fields, choices, algorithms or hyperparameters make a definition unreadable."""
    if isinstance(error, pydantic.ValidationError):
        return all(each["type"] in _UNKNOWN for each in error.errors(include_url=False, include_input=False))
    return isinstance(error, (errors.UnknownAlgorithmError, errors.UnknownHyperparameterError))


class ModelReader:
    """Builds models from their stored form. Caches those that it built last, so that each change is read once."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._newest: OrderedDict[ModelKey, tuple[Model, int]] = OrderedDict()  # after all changes, with its bytes
        self._bytes = 0

    async def read(self, stored: StoredModel, change_count: int | None = None) -> Model:
        """Read a stored model as `read_model` does. Return a copy: properties that it caches are freed with it."""
        newest, _ = self._newest.get(stored.key, (None, 0))
        model = await read_model(self._compute, stored, change_count, newest)
        if model.change_count == len(stored.history):
            self._keep(model, _MODEL_BYTES + _BYTES_PER_CHARACTER * _characters(stored))
        return dataclasses.replace(model)

    def forget(self, key: ModelKey) -> None:
        """Drop a model that is gone."""
        self._bytes -= self._newest.pop(key, (None, 0))[1]

    def _keep(self, model: Model, size: int) -> None:
        self.forget(model.key)
        self._newest[model.key] = model, size
        self._bytes += size
        while self._bytes > _MOST_BYTES and len(self._newest) > 1:
            _, (_, dropped) = self._newest.popitem(last=False)
            self._bytes -= dropped


async def read_model(
    compute: Compute, stored: StoredModel, change_count: int | None = None, known: Model | None = None
) -> Model:
    """Read a stored model as it was after its first `change_count` changes, or as it is now if that is None.

    `known` may be an earlier version of the model. If it matches the stored digests, only later changes are read.
    """
    count, base, run = len(stored.history), None, compute.run_in_thread_if_costly
    if change_count is not None:
        count = change_count
    if known is not None and known.key == stored.key and known.change_count <= min(count, len(stored.history)):
        base = known if known.digest == digest_at(stored.digests, known.change_count) else None
    if base is not None and base.change_count == count:
        return base
    return await run(reading_cost(stored), stored.key.name, stored_model, stored, count, base)


def reading_cost(stored: StoredModel) -> int:
    """Return the estimated cost of reading a definition and its changes: quadratic in the number of `sets`, if any."""
    pairs = stored.definition.partition('"sets":[')[2].partition("]")[0].count(",") ** 2
    return _characters(stored) * costs.DEFINITION_CHARACTER + pairs * costs.DEFINITION_PAIR


def _characters(stored: StoredModel) -> int:
    return len(stored.definition) + sum(map(len, stored.history))


def stored_model(stored: StoredModel, change_count: int | None = None, base: Model | None = None) -> Model:
    """Read a stored model as it was after its first `change_count` changes, starting from `base`, an earlier version.

    Raises:
        NewerVersionError: if the definition has fields, choices or algorithms that this version does not have.
        StoreCorruptError: if it cannot be read, has fewer changes, or does not match its digests.
    """
    count = len(stored.history) if change_count is None else change_count
    if count > len(stored.history):
        lacking = len(stored.history) + 1
        raise errors.StoreCorruptError(f"the history of model {stored.key.name!r} lacks change {lacking}")
    try:
        if base is None:
            definition = ModelDefinition.model_validate(json.loads(stored.definition))
            learner, digests = build_learner(definition), _checked(stored, digests_of([stored.definition]))
            base = Model(stored.key, definition, learner, digests=digests)
        return base if count == base.change_count else _after(base, stored, count)
    except (ValueError, RecursionError, errors.InvalidInputError) as error:
        raise unreadable_definition(stored.key.name, error) from error


def _after(base: Model, stored: StoredModel, count: int) -> Model:
    lines = stored.history[base.change_count : count]
    changes = [read_change(line) for line in lines]
    definition, retired, weight = after(Defined(base.definition, base.retired, base.history_weight), changes)
    is_same = base.definition.labels is definition.labels and base.definition.learner is definition.learner
    learner = base.learner if is_same else build_learner(definition)
    numbered = list(enumerate(changes, base.change_count + 1))
    since = max([number for number, change in numbered if change.learner is not None], default=base.learner_since)
    held = max([number for number, change in numbered if "holdout" in change.policies], default=base.holdout_since)
    return Model(
        *(stored.key, definition, learner, retired, count, since, held),
        new_state=changes[-1].state,
        history_weight=weight,
        digests=_checked(stored, base.digests + digests_of(lines, base.digest)),
    )


def _checked(stored: StoredModel, digests: bytes) -> bytes:
    if not stored.digests.startswith(digests):
        raise errors.StoreCorruptError(f"the history of model {stored.key.name!r} does not have its digests")
    return digests
