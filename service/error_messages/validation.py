"""Describes pydantic's errors in sentences of the service: the value given, and the values allowed."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from pydantic_core.core_schema import ErrorType

from service.error_messages.json_schemas import Place, Root
from service.error_messages.values import choices, quoted, shown

Found = Mapping[str, Any]
"""One of pydantic's errors: `type`, `loc`, `msg`, `ctx` and, unless it was left out, `input`."""

_THEIRS = frozenset({*get_args(ErrorType), "byte_size", "byte_size_unit"})
"""The types of pydantic's errors: those of its core, and of the special types in settings. All others are ours."""

_BEYOND = "less_than_equal"
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_UNICODE = "Unicode without half a surrogate pair"

_OF_KEYS = "[key]"
"""The last step of pydantic's path of an error in the name of a member; the step before is the name."""

_MOST_NAME = 200
"""Maximum characters of a member's name that a path repeats."""


class Wrong(NamedTuple):
    """One invalid field: pydantic's or our type of the error, its path (None for the whole value), and the reason."""

    type: str
    field: str | None
    reason: str

    def sentence(self, whole: str) -> str:
        """Return the field and the reason; `whole` names the whole value, such as "the body"."""
        return f"{whole if self.field is None else shown_field(self.field)}: {self.reason}"


def shown_field(field: str) -> str:
    """Return a path as an error shows it: shortened and escaped if a client chose an odd name."""
    text = quoted(field)
    return field if field and text == f'"{field}"' else text


def explain(found: Found, root: Root, skip: int = 0) -> Wrong:
    """Return one of pydantic's errors in our words, without the first `skip` steps of its path."""
    steps = found["loc"][skip:]
    if steps[-1:] == (_OF_KEYS,) and found["type"].startswith("string_"):
        place = root.find(steps[:-2])
        return Wrong(found["type"], _joined(place.path), _wrong_name(found, place, root))
    place = root.find(steps)
    if found["type"] not in _THEIRS:
        return Wrong(found["type"], _joined(place.path), _REASONS.get(found["type"], _our_words)(found, place, root))
    reason = _REASONS.get(found["type"], _wrong_value)(found, place, root)
    path = (*place.path, _discriminator(found)) if found["type"].startswith("union_tag") else place.path
    return Wrong(_BEYOND if _is_beyond(found) else found["type"], _joined(path), reason)


def _joined(path: tuple[str, ...]) -> str | None:
    return ".".join(map(_shortened, path)) if path else None


def _shortened(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[:_MOST_NAME]}…"


def _wrong_value(found: Found, place: Place, root: Root) -> str:
    given = f"got {shown(found['input'])}; " if "input" in found else ""
    return f"{given}must be {root.allowed(place.schemas)}"


def _our_words(found: Found, *_: object) -> str:
    return str(found["msg"])


def _given_too(found: Found, *_: object) -> str:
    return f"got {shown(found.get('input'))}; {found['msg']}"


def _wrong_name(found: Found, place: Place, root: Root) -> str:
    rule = _UNICODE if found["type"] == "string_unicode" else root.names(place.schemas)
    return f"got the name {shown(found['input'])}; a name must be {rule}"


def _not_unicode(found: Found, *_: object) -> str:
    return f"got {shown(found['input'])}; must be {_UNICODE}"


def _missing(_: Found, place: Place, root: Root) -> str:
    return f"missing; must be {root.allowed(place.schemas)}"


def _missing_kind(_: Found, place: Place, root: Root) -> str:
    return f"missing; must be {root.kinds(place.schemas)}"


def _wrong_kind(found: Found, place: Place, root: Root) -> str:
    given = found["input"][_discriminator(found)] if isinstance(found.get("input"), dict) else found["ctx"]["tag"]
    return f"got {shown(given)}; must be {root.kinds(place.schemas)}"


def _discriminator(found: Found) -> str:
    name: str = found["ctx"]["discriminator"]
    return name.strip("'")


def _unknown(_: Found, place: Place, root: Root) -> str:
    known = root.members(place.around)
    return f"unknown field; {choices(place.path[-1], known, 'known fields')}" if known else "unknown field"


def _not_finite(found: Found, *_: object) -> str:
    return f"got {shown(found['input'])}; must be a finite number" if "input" in found else "must be a finite number"


def _is_beyond(found: Found) -> bool:
    """Check whether the error is an integer that is too large for a float. Pydantic calls this a wrong type."""
    return found["type"] == "float_type" and type(found.get("input")) is int


def _wrong_number(found: Found, place: Place, root: Root) -> str:
    if _is_beyond(found) and not any(_BOUNDS & schema.keys() for schema in place.schemas):
        return f"got {shown(found['input'])}; must be a number between -1.8e308 and 1.8e308"
    return _wrong_value(found, place, root)


def _own_words(found: Found, *_: object) -> str:
    return str(found["ctx"]["error"])


_REASONS: dict[str, Callable[[Found, Place, Root], str]] = {
    "missing": _missing,
    "union_tag_not_found": _missing_kind,
    "union_tag_invalid": _wrong_kind,
    "extra_forbidden": _unknown,
    "finite_number": _not_finite,
    "float_type": _wrong_number,
    "string_unicode": _not_unicode,
    "context_type": _given_too,
    "value_error": _own_words,
    "assertion_error": _own_words,
}
"""Error types with a special reason. All others report the value given and the values allowed."""
