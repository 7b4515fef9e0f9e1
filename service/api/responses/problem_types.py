"""All kinds of problems: their statuses, slugs (stable names) and titles."""

from collections.abc import Iterator
from typing import NamedTuple

from service import errors
from service.errors import WagerError


class Kind(NamedTuple):
    """The constant parts of a problem."""

    status: int
    slug: str
    title: str


def _concrete(base: type[WagerError]) -> Iterator[type[WagerError]]:
    if base.slug:
        yield base
    for each in base.__subclasses__():
        yield from _concrete(each)


OF_ERROR = {each: Kind(each.status, each.slug, each.title) for each in _concrete(WagerError)}

INVALID_REQUEST = OF_ERROR[errors.InvalidInputError]
INVALID_JSON = Kind(400, "invalid-json", "The body is not JSON")
BODY_TOO_LARGE = Kind(413, "body-too-large", "The body is too large")
UNSUPPORTED_MEDIA_TYPE = Kind(415, "unsupported-media-type", "The Content-Type is not what the operation reads")
INTERNAL_ERROR = Kind(500, "internal-error", "The service failed unexpectedly")

OF_HTTP: dict[int, Kind] = {
    # Raised if a body cannot be parsed for a reason other than a syntax error, such as deep nesting.
    400: INVALID_JSON,
    404: Kind(404, "no-such-path", "The path does not exist"),
    405: Kind(405, "method-not-allowed", "The path does not allow the method"),
    408: Kind(408, "slow-body", "The body did not arrive in time"),
    413: BODY_TOO_LARGE,
    415: UNSUPPORTED_MEDIA_TYPE,
}

_WRONG_TYPE = Kind(422, "wrong-type", "A value has the wrong JSON type")
_OUT_OF_RANGE = Kind(422, "out-of-range", "A number, or the length of a string or list, is out of range")
_UNKNOWN_CHOICE = Kind(422, "unknown-choice", "The field does not allow this value")
_INVALID_NAME = Kind(422, "invalid-name", "A name or an id is malformed")
_OF_VALIDATION: dict[str, Kind] = {
    "missing": OF_ERROR[errors.MissingFieldError],
    "union_tag_not_found": OF_ERROR[errors.MissingFieldError],
    "literal_error": _UNKNOWN_CHOICE,
    "union_tag_invalid": _UNKNOWN_CHOICE,
    "finite_number": OF_ERROR[errors.NotFiniteError],
    "extra_forbidden": Kind(422, "unknown-field", "The body has an unknown field"),
    "string_pattern_mismatch": _INVALID_NAME,
    "reserved_id": _INVALID_NAME,
    "duplicate_labels": OF_ERROR[errors.DuplicateLabelsError],
    "too_few_labels": OF_ERROR[errors.TooFewLabelsError],
}
OF_QUERY: dict[str, Kind] = {
    "unknown_parameter": Kind(400, "unknown-parameter", "The operation does not have this query parameter"),
    "repeated_parameter": Kind(400, "repeated-parameter", "A query parameter is given more than once"),
}
_RANGES = ("greater_than", "less_than", "too_short", "too_long", "string_too_short", "string_too_long")


def of_validation(error_type: str) -> Kind:
    """Return the kind of problem for the type of a validation error, which is pydantic's or the service's."""
    if error_type.endswith(("_type", "_parsing")):
        return _WRONG_TYPE
    if error_type.startswith(_RANGES):
        return _OUT_OF_RANGE
    return (_OF_VALIDATION | OF_QUERY).get(error_type, INVALID_REQUEST)


def validation_slugs() -> list[str]:
    """Return the slugs that invalid fields may have, other than `invalid-request`, sorted."""
    return sorted({kind.slug for kind in (*_OF_VALIDATION.values(), _WRONG_TYPE, _OUT_OF_RANGE)})


def every_kind() -> list[Kind]:
    """Return all kinds, ordered by status and slug."""
    others = {INVALID_JSON, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, _WRONG_TYPE, _OUT_OF_RANGE, INTERNAL_ERROR}
    return sorted(others.union(OF_ERROR.values(), OF_HTTP.values(), _OF_VALIDATION.values(), OF_QUERY.values()))
