"""JSON bodies, read and written; large ones in a thread, so that the event loop goes on.

One call of a parser holds the interpreter's lock: what it may be given is bounded, by the size of a body and by the
members of its objects, each of which may be an error that takes far longer to report than to read.
"""

import json
from collections.abc import Iterator, Mapping
from email.message import Message
from functools import lru_cache
from typing import Any

import msgspec
import pydantic
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from service.compute import Compute
from service.errors import InvalidInputError
from service.schemas.models import ModelAnswer
from service.schemas.rounds import PredictAnswer, PredictBatchAnswer

LARGE = 2**15
"""Bytes of a body from which on it is read in a thread; numbers of an answer from which on it is written in one."""

MOST_MEMBERS = 1000
"""The most members that an object of a request may have."""

MOST_PARTS = 250_000
"""The most objects, lists and members that a body may have: each is a Python object to make and to free."""

_OWNER = ""
"""Bodies share the threads of `Compute` as one owner: no model has this name."""

_CHUNK = 2**18
_MOST_TYPE_BYTES = 256


def is_json(content_type: bytes) -> bool:
    """Whether a body of this type is JSON."""
    media_type = content_type.partition(b";")[0].strip().lower()
    return media_type == b"application/json" or (
        media_type.startswith(b"application/") and media_type.endswith(b"+json")
    )


@lru_cache(maxsize=64)
def check_charset(content_type: bytes) -> None:
    """Refuse a body whose media type declares another charset than UTF-8, the only one of JSON (RFC 8259, section 8.1).

    Raises:
        HTTPException: 415, if so, or if the type is too long: parsing takes quadratic time.
    """
    if len(content_type) > _MOST_TYPE_BYTES:
        raise HTTPException(415, f"Content-Type has more than {_MOST_TYPE_BYTES} bytes")
    parsed = Message()
    parsed["Content-Type"] = content_type.decode("latin-1")
    charset = parsed.get_param("charset", "utf-8")
    if str(charset).lower() not in ("utf-8", "utf8"):
        raise HTTPException(415, f"the body must be UTF-8, but Content-Type declares the charset {charset!r}")


async def read_large(request: Request, body: bytes, model: pydantic.TypeAdapter[Any]) -> Any:
    """Read a large body in a thread.

    Args:
        request: whose application has the threads.
        body: JSON.
        model: what it is to be.

    Raises:
        RequestValidationError: if it is not JSON, or not such a model.
        InvalidInputError: if one of its objects has too many members.
    """
    return await _compute_of(request).run(_OWNER, _read, body, model)


def _compute_of(request: Request) -> Compute:
    compute: Compute = request.app.state.compute
    return compute


def _read(body: bytes, model: pydantic.TypeAdapter[Any]) -> Any:
    parts = sum(map(body.count, (b"[", b"{", b":")))
    if parts > MOST_PARTS:
        raise InvalidInputError(f"the body has some {parts:,} objects, lists and members; it may have {MOST_PARTS:,}")
    try:
        if body.count(b":") > MOST_MEMBERS:
            check_members(msgspec.json.decode(body))
        return model.validate_json(body)
    except (pydantic.ValidationError, msgspec.MsgspecError, RecursionError):
        return _read_as_fastapi(body, model)


def _read_as_fastapi(body: bytes, model: pydantic.TypeAdapter[Any]) -> Any:
    """Read a body that is wrong, so that its errors are those of a small one."""
    try:
        value = json.loads(body)
    except json.JSONDecodeError as error:
        found = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "", "ctx": {"error": error.msg}}
        raise RequestValidationError([found]) from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "There was an error parsing the body") from None
    check_members(value)
    try:
        return model.validate_python(value, from_attributes=True)  # as FastAPI does
    except pydantic.ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in errors]) from None


def check_members(value: Any) -> None:
    """Refuse objects with too many members, however deep they are.

    Raises:
        InvalidInputError: if there is one.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if len(item) > MOST_MEMBERS:
                detail = f"an object of the body has {len(item):,} members; it may have {MOST_MEMBERS:,}"
                raise InvalidInputError(detail)
            waiting += item.values()
        elif isinstance(item, list) and any([isinstance(each, (dict, list)) for each in item]):  # noqa: C419  faster
            waiting += item


def _as_json(value: Any) -> Any:
    """Turn a model of pydantic's into what msgspec writes."""
    return value.model_dump(mode="json")


_ENCODER = msgspec.json.Encoder(enc_hook=_as_json)


async def answer_with(
    request: Request, answer: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The response that brings an answer; a large one is written in a thread.

    Args:
        request: that is answered.
        answer: a dataclass, or one of pydantic's models.
        status: of the response.
        headers: of the response.
    """
    if _numbers_in(answer) < LARGE:
        body = _ENCODER.encode(answer)
    else:
        body = await _compute_of(request).run(_OWNER, _written, answer)
    kind = Response if len(body) < _CHUNK else _ChunkedResponse
    return kind(body, status, dict(headers or {}), "application/json")


def _numbers_in(answer: Any) -> int:
    """How many labels and numbers an answer lists, roughly."""
    match answer:
        case PredictAnswer():
            return len(answer.distribution or ()) + len(answer.labels or ())
        case PredictBatchAnswer():
            return sum(map(_numbers_in, answer.predictions))
        case ModelAnswer():
            return len(answer.labels)
    return 0


def _written(answer: Any) -> bytes:
    """The bytes of an answer, item by item: the lock is free between two of them."""
    if isinstance(answer, PredictBatchAnswer):
        return b'{"predictions":[' + b",".join(map(_ENCODER.encode, answer.predictions)) + b"]}"
    return _ENCODER.encode(answer)


class _ChunkedResponse(Response):
    """A response whose body is sent in parts, as fast as the client takes them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  ASGI's signature
        """Send the head, then the parts."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part, more in _parts(bytes(self.body)):
            await send({"type": "http.response.body", "body": part, "more_body": more})


def _parts(body: bytes) -> Iterator[tuple[bytes, bool]]:
    for start in range(0, len(body), _CHUNK):
        yield body[start : start + _CHUNK], start + _CHUNK < len(body)
