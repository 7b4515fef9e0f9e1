"""Which models OpenFeature clients can evaluate as flags, and the checks of the policies of flags."""

from collections.abc import Collection

from learners.base import AnyLearner
from service import errors
from service.error_messages.values import joined, quoted
from service.json_values import JsonObject
from service.schemas.flags import json_type
from service.schemas.models import ModelDefinition


def why_no_flag(definition: ModelDefinition, learner: AnyLearner) -> str | None:
    """Return why a flag cannot be evaluated with the model; None if it can."""
    if definition.actions is not None:
        return "the model has actions, which an evaluation cannot bring"
    if learner.answer in ("label-set", "ranking"):
        return "the model answers several labels at once, but a flag has one value"
    if definition.holdout is not None and definition.holdout.policy == "baseline":
        return "the model's holdout answers the client's own choice, which an evaluation cannot send"
    if definition.features.kind not in ("none", "named"):
        return f"the model has {definition.features.kind} features, but the context of an evaluation has named ones"
    return None


def check_flags(definition: ModelDefinition, learner: AnyLearner) -> None:
    """Raise `InvalidInputError` if the policies of flags do not fit the model."""
    values, bulk = definition.values, definition.ofrep.bulk
    if values is None and not bulk:
        return
    if (reason := why_no_flag(definition, learner)) is not None:
        field, wanted = ("ofrep.bulk", "false") if values is None else ("values", "null")
        raise errors.InvalidInputError(f"must be {wanted}: {reason}", field)
    known = set(definition.labels)
    for label in values or ():
        if label not in known:
            raise errors.UnknownLabelError(f"got {quoted(label)}; the model has no such label", f"values.{label}")


def value_of(definition: ModelDefinition, label: str) -> str | float | JsonObject:
    """Return the value of a flag whose variant is this label: the label itself, unless `values` has another one."""
    value: str | float | JsonObject = (definition.values or {}).get(label, label)
    return value


def value_warnings(definition: ModelDefinition, retired: Collection[str]) -> list[str]:
    """Return a warning, which begins with `values`, if the labels that are not retired have values of several types."""
    if definition.values is None:
        return []
    types = sorted({json_type(value_of(definition, label)) for label in definition.labels if label not in retired})
    if len(types) == 1:
        return []
    return [
        f"values: the labels have values of the types {joined(types, 'and')}, but an OpenFeature client asks for one "
        "type, and takes its default instead of the others; a label without a value is a string."
    ]
