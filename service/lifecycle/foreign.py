"""Checks the parts of a model's file that no learner checks."""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import pydantic

from service.catalogue.changing import MOST_CHANGES, MOST_COPIES
from service.errors import NewerVersionError
from service.input_errors import ModelFileError, TooManyChangesError
from service.lifecycle.model_file import ExportedImport, as_file_error
from service.models.changes import checked_policies, read_change
from service.replicas.statistics import SLOTS, RoundStatistics, decode_statistics
from service.schemas.policies import LONGEST_WINDOW, SHORTEST_WINDOW
from service.store.import_store import ImportedSource
from service.wording.values import quoted, shown

_LATEST = 253_402_300_799.0  # the last second of the year 9999
_MOST_KEY_ID = 64
_LARGEST, _LARGEST_COUNT = 1e300, 2**53
_OF_STATISTICS = pydantic.TypeAdapter(RoundStatistics)


def checked_history(changes: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return the changes in a file as stored.

    Raises:
        ModelFileError: if one is invalid.
        TooManyChangesError: if there are too many.
        NewerFileError: if a newer version made one.
    """
    if len(changes) > (most := MOST_CHANGES + MOST_COPIES):
        raise TooManyChangesError(f"got {len(changes):,} changes; a copy of a model may have at most {most:,}")
    return tuple(_checked(number, change) for number, change in enumerate(changes, 1))


def _checked(number: int, given: dict[str, Any]) -> str:
    try:
        change = read_change(json.dumps(given))
        checked_policies(change.policies)
    except pydantic.ValidationError as error:
        unknown = {each["type"] for each in error.errors(include_url=False)} <= {"extra_forbidden", "literal_error"}
        detail = f"change {number} is not one of this version"
        raise as_file_error(NewerVersionError(detail) if unknown else ValueError(detail)) from error
    if not 0 <= change.at <= _LATEST or len(change.by or "") > _MOST_KEY_ID:
        raise ModelFileError(
            f"change {number} has an invalid time or key: {shown(change.at)}, {quoted(change.by or '')}"
        )
    return change.encode()


def checked_imports(imports: Sequence[ExportedImport]) -> tuple[ImportedSource, ...]:
    """Return the sources of imported rounds in a file as stored.

    Raises:
        ModelFileError: if a source occurs twice.
    """
    found = {each.source: ImportedSource(each.source, each.position, each.at) for each in imports}
    if len(found) < len(imports):
        raise ModelFileError("a source of imported rounds occurs twice")
    return tuple(found.values())


def checked_statistics(encoded: bytes, rounds: int) -> bytes:
    """Return encoded statistics that are of the right types and count no more rounds than the model has.

    Raises:
        ModelFileError: if they do not.
        NewerFileError: if a newer version wrote them.
    """
    try:
        statistics = decode_statistics(encoded)
        _OF_STATISTICS.validate_json(statistics.encode(), strict=True)  # an integer is no truth value
    except NewerVersionError as error:
        raise as_file_error(error) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError("its statistics cannot be read") from error
    numbers = list(_numbers(dataclasses.asdict(statistics)))
    if statistics.rounds > rounds or not all(0 <= number <= _LARGEST for number in numbers):
        raise ModelFileError("its statistics have more rounds than the model, or a number out of range")
    if not SHORTEST_WINDOW <= statistics.slot_seconds * SLOTS <= LONGEST_WINDOW:
        raise ModelFileError("its statistics have time slots that no window has")
    return statistics.encode()


def _numbers(value: Any) -> Any:
    match value:
        case dict():
            return [each for item in value.values() for each in _numbers(item)]
        case list() | tuple():
            return [each for item in value for each in _numbers(item)]
        case bool() | None | str():
            return []
        case int():
            return [value if value <= _LARGEST_COUNT else math.inf]
        case _:
            return [value if math.isfinite(value) else math.inf]
