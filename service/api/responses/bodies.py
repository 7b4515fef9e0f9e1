"""Reads and writes JSON bodies; uses a thread for large ones, to keep the event loop responsive.

A parser holds the interpreter's lock for a whole call. The size of a body is therefore limited, and so is the number of
its parts and of the members of each object: any member may be invalid, and it takes far longer to report an error than
to read a member.
"""

import json
from collections.abc import Mapping
from email.message import Message
from email.utils import collapse_rfc2231_value
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec
import pydantic
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from service.compute import Compute
from service.error_messages.json_text import HalfPairError, check_pairs
from service.error_messages.values import quoted
from service.errors import InvalidInputError
from service.schemas.models import ChangeList, ModelAnswer
from service.schemas.reports import ExplainAnswer
from service.schemas.rounds import PredictAnswer, PredictBatchAnswer

CLIENT_GONE = 499  # the status in metrics and logs if the client disconnects before its body is complete
LARGE = 2**15  # minimum size of a body (in bytes) or a response (in numbers and labels) that needs a thread
MOST_MEMBERS = 1000  # maximum members of an object in a large body
MOST_PARTS = 250_000  # maximum objects, lists and members of a body; each becomes a Python object
_OWNER = ""  # `Compute` counts these jobs under this name, which no model has

_CHUNK = 2**18  # bytes of a response to send at once
_MOST_TYPE_BYTES = 256


@lru_cache(maxsize=64)
def is_json(content_type: bytes) -> bool:
    """Check whether a media type is JSON."""
    media_type = content_type.partition(b";")[0].strip().lower()
    return media_type == b"application/json" or (
        media_type.startswith(b"application/") and media_type.endswith(b"+json")
    )


@lru_cache(maxsize=64)
def check_charset(content_type: bytes) -> None:
    """Raise HTTPException 415 if a media type is too long, or its charset is not UTF-8 (RFC 8259, section 8.1)."""
    if len(content_type) > _MOST_TYPE_BYTES:
        raise HTTPException(415, f"Content-Type has more than {_MOST_TYPE_BYTES} bytes")
    parsed = Message()
    parsed["Content-Type"] = content_type.decode("latin-1")
    charset = collapse_rfc2231_value(parsed.get_param("charset", "utf-8"))
    if charset.lower() not in ("utf-8", "utf8"):
        raise HTTPException(415, f"the body must be UTF-8, but Content-Type declares the charset {quoted(charset)}")


def check_text(body: bytes) -> None:
    """Raise HTTPException 400 if a body is not UTF-8 or has half a surrogate pair: Python's parser accepts both."""
    try:
        body.decode()
        null = body.find(b"\0")  # in UTF-16 and UTF-32, each character of JSON's syntax has one
        if null >= 0:
            raise UnicodeDecodeError("utf-8", body, null, null + 1, "null byte")
        check_pairs(body)
    except (UnicodeDecodeError, HalfPairError) as error:
        raise HTTPException(400) from error


async def read_whole(receive: Receive) -> bytes:
    """Return the body of a request. Raises HTTPException if `receive` does, or if the client disconnects."""
    parts, more = list[bytes](), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise client_left()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def client_left() -> HTTPException:
    """Return the error of a request whose client disconnected too early."""
    return HTTPException(CLIENT_GONE, "the client disconnected before the body was complete")


async def read_json(compute: Compute, body: bytes, model: pydantic.TypeAdapter[Any]) -> Any:
    """Read a body; a thread reads a large one.

    Raises RequestValidationError if the body is empty, not JSON or not valid, HTTPException if it cannot be parsed for
    another reason, such as its encoding, and InvalidInputError if it has too many parts or members.
    """
    if len(body) >= LARGE:
        return await compute.run(_OWNER, _read_large, body, model)
    try:
        return model.validate_json(body)
    except pydantic.ValidationError:
        return _read_as_fastapi(body, model)


def compute_of(scope: Scope) -> Compute:
    """Return the pool of threads of the application that handles a request."""
    compute: Compute = scope["app"].state.compute
    return compute


def _read_large(body: bytes, model: pydantic.TypeAdapter[Any]) -> Any:
    if len(body) > MOST_PARTS:  # a part has at least one byte
        parts = sum(map(body.count, (b"[", b"{", b":")))
        if parts > MOST_PARTS:
            detail = f"the body has about {parts:,} objects, lists and members; it may have at most {MOST_PARTS:,}"
            raise InvalidInputError(detail)
    try:
        if body.count(b":") > MOST_MEMBERS:
            check_members(msgspec.json.decode(body))
        return model.validate_json(body)
    except (pydantic.ValidationError, msgspec.MsgspecError, RecursionError):
        return _read_as_fastapi(body, model)


def _read_as_fastapi(body: bytes, model: pydantic.TypeAdapter[Any]) -> Any:
    """Read a body that pydantic's parser refused; raise the errors that FastAPI would raise."""
    if not body:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}])
    check_text(body)
    try:
        value = json.loads(body)
    except json.JSONDecodeError as error:
        found = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "", "ctx": {"error": error.msg}}
        raise RequestValidationError([found]) from None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400) from error
    if len(body) >= LARGE:
        check_members(value)
    try:
        return model.validate_python(value, from_attributes=True)  # as FastAPI does
    except pydantic.ValidationError as error:
        errors = error.errors(include_url=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in errors]) from None


def check_members(value: object) -> None:
    """Raise InvalidInputError if any object in a value, at any depth, has too many members."""
    level = [value]
    while level:  # one level at a time, which is much faster than recursion
        objects = [each for each in level if type(each) is dict]
        most = max(map(len, objects), default=0)
        if most > MOST_MEMBERS:
            raise InvalidInputError(f"an object of the body has {most:,} members; it may have at most {MOST_MEMBERS:,}")
        inner = [each.values() for each in objects] + [each for each in level if type(each) is list]
        level = [each for each in chain.from_iterable(inner) if type(each) in (dict, list)]


_NUMBERS_OF_FEATURE, _NUMBERS_OF_CHANGE = 5, 100
"""How many numbers take as long to encode as one feature of an explanation, and as one change of a model."""

_ENCODER = msgspec.json.Encoder(enc_hook=lambda model: model.model_dump(mode="json"))


async def answer_with(
    request: Request, answer: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response; a thread encodes a large one."""
    body = await encode(answer, compute_of(request.scope))
    return _JsonResponse(body, status, dict(headers or {}), "application/json")


async def encode(answer: object, compute: Compute) -> bytes:
    """Return the JSON of a dataclass or a pydantic model; a thread encodes a large one."""
    if _numbers_in(answer) < LARGE:
        return _ENCODER.encode(answer)
    return await compute.run(_OWNER, _written, answer)


async def send_body(send: Send, body: bytes) -> None:
    """Send the body of a response; send a long one in parts, at the client's pace."""
    for start in range(0, max(1, len(body)), _CHUNK):
        part, more = body[start : start + _CHUNK], start + _CHUNK < len(body)
        await send({"type": "http.response.body", "body": part, "more_body": more})


def _numbers_in(answer: object) -> int:
    """Estimate the size of a response, as a number of labels and numbers."""
    match answer:
        case PredictAnswer():
            return len(answer.distribution or ()) + len(answer.labels or ()) + 3 * len(answer.slots or ())
        case PredictBatchAnswer():
            made = [each for each in answer.predictions if isinstance(each, PredictAnswer)]
            long = [each for each in made if each.distribution or each.labels or each.slots]
            return sum(map(_numbers_in, long))
        case ModelAnswer():
            return len(answer.labels)
        case ChangeList():
            named = sum([len(each.added) + len(each.retired) for each in answer.changes])
            return named + _NUMBERS_OF_CHANGE * len(answer.changes) + len(answer.definition.get("labels", ()))
        case ExplainAnswer():
            of_actions = sum([_NUMBERS_OF_FEATURE * len(each.features) for each in answer.actions or ()])
            return of_actions + len(answer.features) * len(answer.scores or ())
    return 0


def _written(answer: object) -> bytes:
    """Encode a large response, if possible in several calls: each holds the interpreter's lock."""
    if isinstance(answer, PredictBatchAnswer):
        return b'{"predictions":[' + b",".join(map(_ENCODER.encode, answer.predictions)) + b"]}"
    if isinstance(answer, ExplainAnswer):
        features = b",".join(map(_ENCODER.encode, answer.features))
        actions = b"null" if answer.actions is None else b"[" + b",".join(map(_ENCODER.encode, answer.actions)) + b"]"
        rest = _ENCODER.encode(answer.model_dump(mode="json", exclude={"features", "actions"}))
        return rest[:-1] + b',"features":[' + features + b'],"actions":' + actions + b"}"
    return _ENCODER.encode(answer)


class _JsonResponse(Response):
    """A JSON response that sends a long body in parts."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send_body(send, bytes(self.body))
