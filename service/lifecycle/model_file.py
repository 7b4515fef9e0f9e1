"""The file of an exported model: a safetensors file, which cannot contain code.

Its arrays are the learner's state and the encoded states of the shadows; its metadata contain the rest as JSON.
docs/guides/lifecycle.md describes the format.
"""

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import pydantic
from pydantic import Field

from service.error_messages.json_schemas import root_of
from service.error_messages.json_text import check_pairs
from service.error_messages.validation import explain
from service.error_messages.values import shown
from service.errors import ModelFileError, NewerFileError, NewerVersionError
from service.json_values import JsonMapping, JsonObject
from service.models.reading import is_newer
from service.schemas.models import ModelName
from service.schemas.rounds import Source
from service.store.keys import SHADOW_SLOTS
from service.store.values import MOST_SOURCES
from service.strict_body import Body

FORMAT, VERSION = "wager-model", 1  # the format of the file, and its version
_MOST_HEADER = 2**25  # bytes: a definition and a history of 4 MiB each, in JSON within JSON
_MOST_MEMBERS = 1_000_000  # maximum objects, lists and members of the header; reading this many takes a second
_METADATA = {"format", "version", "wager", "learner", "model", "statistics"}
_ITEM_BYTES = {"F64": 8, "I64": 8, "U8": 1}
SHADOW = "shadow:"  # prefix in the name of an array whose bytes are a shadow's state, itself a safetensors file
MOST_KEY_ID = 64
LATEST = 253_402_300_799.0  # the last second of the year 9999
_MOST_ROUNDS = 10**14  # the store's scripts count exactly up to 10¹⁵, so nine times as many rounds can follow


class ExportedImport(Body):
    """A source of imported rounds."""

    source: Source
    position: Annotated[int, Field(ge=0, le=_MOST_ROUNDS)]
    at: Annotated[float, Field(ge=0, le=LATEST)]


class ExportedShadow(Body):
    """A shadow without its state."""

    name: ModelName
    learner: JsonObject
    at: Annotated[float, Field(ge=0, le=LATEST)]  # when the shadow got this learner
    by: Annotated[str | None, Field(max_length=MOST_KEY_ID)] = None
    restarts: Annotated[int, Field(ge=0, le=_MOST_ROUNDS)] = 0
    # the number of rounds that its state has seen; None without a state
    rounds: Annotated[int | None, Field(ge=0, le=_MOST_ROUNDS)] = None
    comparison: JsonObject | None = None


class ExportedModel(Body):
    """A model without its state and statistics."""

    name: ModelName
    definition: JsonObject  # before the first change
    changes: list[JsonObject]  # oldest first
    rounds: Annotated[int, Field(ge=0, le=_MOST_ROUNDS)]
    created_at: Annotated[float, Field(ge=0, le=LATEST)]
    # so that a repeated `wager replay` into the copy imports no round twice
    imports: Annotated[list[ExportedImport], Field(max_length=MOST_SOURCES)] = Field(default_factory=list)
    shadows: Annotated[list[ExportedShadow], Field(max_length=SHADOW_SLOTS)] = Field(default_factory=list)


class ModelFile(NamedTuple):
    """The contents of a file."""

    model: ExportedModel
    statistics: bytes
    data: memoryview  # the whole file, which `learners.codec.decode_state` reads
    shadows: Mapping[str, memoryview]  # the encoded states of shadows, by name


def file_of(
    model: ExportedModel,
    statistics: bytes,
    state: memoryview,
    release: str,
    shadows: Mapping[str, memoryview] = MappingProxyType({}),
) -> tuple[bytes | memoryview, ...]:
    """Return the header and the body of a model's file, in parts.

    `state` is an encoded state, itself a safetensors file; `shadows` maps each shadow's name to its encoded state.
    """
    length = int.from_bytes(state[:8], "little")
    header = json.loads(bytes(state[8 : 8 + length]))
    header["__metadata__"] |= {
        "format": FORMAT,
        "version": str(VERSION),
        "wager": release,
        "model": model.model_dump_json(),
        "statistics": statistics.decode(),
    }
    end = len(state) - 8 - length
    for name, encoded in shadows.items():
        header[SHADOW + name] = {"dtype": "U8", "shape": [len(encoded)], "data_offsets": [end, end + len(encoded)]}
        end += len(encoded)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    return len(text).to_bytes(8, "little") + text, state[8 + length :], *shadows.values()


def read_file(data: memoryview) -> ModelFile:
    """Read a file, but not the numbers in its arrays.

    Raises `ModelFileError` if the file is not intact, or `NewerFileError` if a newer version wrote it.
    """
    header, body_bytes = _header(data)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ModelFileError(f'its metadata lack "format": "{FORMAT}"; it is not the file of a model')
    version = str(metadata.get("version"))
    if not version.isdigit() or len(version) > 9:
        raise ModelFileError(f"got version {shown(version)}; must be {VERSION}")
    if int(version) > VERSION:
        raise NewerFileError(f"the file has version {version}; this service reads version {VERSION}")
    if set(metadata) != _METADATA or not all(isinstance(value, str) for value in metadata.values()):
        raise ModelFileError(f"its metadata must be strings named {', '.join(sorted(_METADATA))}")
    places, body = _places(header, body_bytes), data[len(data) - body_bytes :]
    shadows = {name.removeprefix(SHADOW): body[slice(*at)] for name, at in places.items() if name.startswith(SHADOW)}
    return ModelFile(_model(metadata["model"]), metadata["statistics"].encode(errors="replace"), data, shadows)


def _header(data: memoryview) -> tuple[JsonObject, int]:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ModelFileError("it is not a safetensors file, or is cut short: its header does not fit into it")
    if length > _MOST_HEADER:
        raise ModelFileError(f"its header has {length:,} bytes; it may have at most {_MOST_HEADER:,}")
    text = bytes(data[8 : 8 + length])
    if sum(map(text.count, (b"[", b"{", b":"))) > _MOST_MEMBERS:  # also counts those in strings that hold JSON
        raise ModelFileError(f"its header has more than {_MOST_MEMBERS:,} objects, lists and members")
    header = _json(text, "its header")
    if not isinstance(header, dict):
        raise ModelFileError("its header must be an object")
    return header, len(data) - 8 - length


def _places(arrays: JsonMapping, body_bytes: int) -> dict[str, tuple[int, int]]:
    """Return where each array begins and ends in the body; raise `ModelFileError` unless they exactly fill it."""
    places = {name: _place_of_array(name, entry) for name, entry in arrays.items()}
    bounds = [(0, 0), *sorted(places.values()), (body_bytes, body_bytes)]
    if any(following[0] != place[1] for place, following in pairwise(bounds)):
        raise ModelFileError("its arrays overlap, leave gaps, or do not end with the file, which may be cut short")
    return places


def _place_of_array(name: str, entry: object) -> tuple[int, int]:
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(start), int(stop)], **others} if not others:
            sizes = [size for size in shape if type(size) is int and 0 <= size <= _MOST_ROUNDS]
            right = len(sizes) == len(shape) <= 4 and dtype in _ITEM_BYTES
            if right and 0 <= start <= stop and math.prod(sizes) * _ITEM_BYTES[dtype] == stop - start:
                return start, stop
    raise ModelFileError(f"array {shown(name)} has an invalid dtype, shape or place")


def _model(text: str) -> ExportedModel:
    value = _json(text.encode(errors="replace"), "its model")
    try:
        return ExportedModel.model_validate(value)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        wrong = explain(first, root_of(ExportedModel))
        kind = NewerFileError if first["type"] == "extra_forbidden" else ModelFileError
        raise kind(wrong.sentence("its model")) from error


def _json(text: bytes, what: str) -> Any:
    try:
        check_pairs(text)
        return json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{what} is not JSON in UTF-8, is nested too deeply, or names a member twice") from error


def _without_repetition(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member occurs twice")
    return members


def _refused(text: str) -> Any:
    raise ValueError(text)


def as_file_error(error: Exception) -> ModelFileError:
    """Convert an error about a file to a `ModelFileError`; to a `NewerFileError` if a newer version wrote it."""
    newer = isinstance(error, NewerVersionError) or is_newer(error)
    return (NewerFileError if newer else ModelFileError)(str(error))
