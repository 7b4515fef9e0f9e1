"""Why a stored definition cannot be read: it is damaged, or of a newer version."""

import json

import pydantic

from service.errors import NewerVersionError, StoreCorruptError, StoreError, WagerError
from service.input_errors import UnknownAlgorithmError, UnknownHyperparameterError
from service.schemas.models import ModelDefinition
from service.wording.bad_json import syntax_error, unreadable
from service.wording.json_schemas import root_of
from service.wording.validation import explain

_UNKNOWN = {"extra_forbidden", "literal_error", "union_tag_invalid"}
"""Pydantic's error types for unknown fields and choices."""


def unreadable_definition(name: str, error: Exception) -> StoreError:
    """Return the error of a model whose definition, or a change of it, cannot be read.

    Args:
        name: the model.
        error: what reading it raised.
    """
    if is_newer(error):
        return NewerVersionError(f"a newer version wrote the definition of model {name!r}: {reason_of(error)}")
    return StoreCorruptError(f"the definition of model {name!r} cannot be read: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    """Return why a definition cannot be read."""
    match error:
        case pydantic.ValidationError():
            return explain(error.errors(include_url=False)[0], root_of(ModelDefinition)).sentence("the definition")
        case WagerError():
            return f"{error.field}: {error.detail}"
        case json.JSONDecodeError():
            return syntax_error(error.msg, error.pos)
    return unreadable(error)


def is_newer(error: Exception) -> bool:
    """Check whether all errors in a definition are unknown fields, choices, algorithms or hyperparameters."""
    if isinstance(error, pydantic.ValidationError):
        return all(each["type"] in _UNKNOWN for each in error.errors(include_url=False, include_input=False))
    return isinstance(error, (UnknownAlgorithmError, UnknownHyperparameterError))
