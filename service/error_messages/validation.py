"""Rewrites pydantic's errors in the service's words: the value given, and the values allowed."""

from collections.abc import Callable
from typing import NamedTuple, get_args

from pydantic_core.core_schema import ErrorType

from service.error_messages.json_schemas import Place, Root
from service.error_messages.values import choices, quoted, shown
from service.json_values import JsonMapping

Found = JsonMapping  # one of pydantic's errors: `type`, `loc`, `msg`, `ctx` and, unless omitted, `input`

_THEIRS = frozenset({*get_args(ErrorType), "byte_size", "byte_size_unit"})
"""Pydantic's own error types, from its core and from special types in settings. All others are the service's."""

_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_UNICODE = "Unicode without half a surrogate pair"

_OF_KEYS = "[key]"  # pydantic's path to an invalid member name ends with the name and this step
_MOST_NAME = 200  # maximum characters of a member's name that a path repeats


class Wrong(NamedTuple):
    """One invalid field: the type of the error, the path (None for the whole value), and the reason."""

    type: str
    field: str | None
    reason: str

    def sentence(self, whole: str) -> str:
        """Return the field, or `whole` (such as "the body") if there is none, and the reason."""
        return f"{whole if self.field is None else shown_field(self.field)}: {self.reason}"


def shown_field(field: str) -> str:
    """Return a path as an error shows it: quoted if it is long or has unusual characters."""
    text = quoted(field)
    return field if field and text == f'"{field}"' else text


def explain(found: Found, root: Root, skip: int = 0) -> Wrong:
    """Explain one of pydantic's errors. `root` describes the value to which the first `skip` steps of the path lead."""
    steps = found["loc"][skip:]
    if steps[-1:] == (_OF_KEYS,) and found["type"].startswith("string_"):
        place = root.find(steps[:-2])
        return Wrong(found["type"], _joined(place.path), _wrong_name(found, place, root))
    place = root.find(steps)
    path = (*place.path, _discriminator(found)) if found["type"].startswith("union_tag") else place.path
    kind = "less_than_equal" if _is_beyond(found) else found["type"]
    return Wrong(kind, _joined(path), _reason(found, place, root))


def _joined(path: tuple[str, ...]) -> str | None:
    names = [name if len(name) <= _MOST_NAME else f"{name[:_MOST_NAME]}…" for name in path]
    return ".".join(names) if path else None


def _reason(found: Found, place: Place, root: Root) -> str:
    """Return the value given and the values allowed, or the special text of this error type."""
    special = _SPECIAL.get(found["type"])
    if special is not None:
        return special(found, place, root)
    if found["type"] not in _THEIRS:
        return str(found["msg"])
    if _is_beyond(found) and not any(_BOUNDS & schema.keys() for schema in place.schemas):
        return f"{_given(found)}must be a number between -1.8e308 and 1.8e308"
    return f"{_given(found)}must be {root.allowed(place.schemas)}"


def _given(found: Found) -> str:
    return f"got {shown(found['input'])}; " if "input" in found else ""


def _is_beyond(found: Found) -> bool:
    """Check whether the error is an integer too large for a float, which pydantic reports as a wrong type."""
    return found["type"] == "float_type" and type(found.get("input")) is int


def _wrong_name(found: Found, place: Place, root: Root) -> str:
    rule = _UNICODE if found["type"] == "string_unicode" else root.names(place.schemas)
    return f"got the name {shown(found['input'])}; a name must be {rule}"


def _wrong_kind(found: Found, place: Place, root: Root) -> str:
    given = found["input"][_discriminator(found)] if isinstance(found.get("input"), dict) else found["ctx"]["tag"]
    return f"got {shown(given)}; must be {root.kinds(place.schemas)}"


def _discriminator(found: Found) -> str:
    return str(found["ctx"]["discriminator"]).strip("'")


def _unknown(_: Found, place: Place, root: Root) -> str:
    known = root.members(place.around)
    return f"unknown field; {choices(place.path[-1], known, 'known fields')}" if known else "unknown field"


_SPECIAL: dict[str, Callable[[Found, Place, Root], str]] = {
    "missing": lambda _, place, root: f"missing; must be {root.allowed(place.schemas)}",
    "union_tag_not_found": lambda _, place, root: f"missing; must be {root.kinds(place.schemas)}",
    "union_tag_invalid": _wrong_kind,
    "extra_forbidden": _unknown,
    "finite_number": lambda found, *_: f"{_given(found)}must be a finite number",
    "string_unicode": lambda found, *_: f"{_given(found)}must be {_UNICODE}",
    "context_type": lambda found, *_: f"{_given(found)}{found['msg']}",  # pydantic's message cannot contain the value
    "value_error": lambda found, *_: str(found["ctx"]["error"]),  # from a validator of the service
    "assertion_error": lambda found, *_: str(found["ctx"]["error"]),
}
