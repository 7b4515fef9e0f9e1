"""Bodies of requests, and webhooks."""

import json
from collections import defaultdict
from typing import Any

import pydantic
from starlette.exceptions import HTTPException

from service.api.responses.bodies import check_text
from service.errors import InvalidInputError, SignatureError
from service.rounds.webhooks import Verifier, read_feedback
from service.schemas.models import ModelDefinition, ModelPatch
from service.schemas.rounds import FeedbackRequest, ImportRequest
from service.strict_body import Body
from tests.fuzz.target import Target
from tests.service.api.test_webhooks import NOW, SECRET, signed
from tests.service.sample_models import definition
from tests.service.schemas.test_plain_bodies import COMMON, bodies, check


def _both_ways(kind: type[Body], body: bytes) -> bool:
    """Check that the fast way, pydantic's and FastAPI's read a body alike; return whether they read it.

    FastAPI's way reads what pydantic refuses, such as a byte order mark; its strings must be Unicode as well.
    """
    if kind in _PLAIN:
        check(kind, body)
    first, second = _as_json(kind, body), _as_fastapi(kind, body)
    assert first is None or repr(first) == repr(second)
    return second is not None


def _as_json(kind: type[Body], body: bytes) -> Any:
    try:
        return kind.model_validate_json(body)
    except pydantic.ValidationError:
        return None


def _as_fastapi(kind: type[Body], body: bytes) -> Any:
    try:
        check_text(body)
        value = json.loads(body)
        found = kind.model_validate(value, from_attributes=True)
    except (HTTPException, ValueError, RecursionError):
        return None
    json.dumps(value, ensure_ascii=False).encode()
    return found


def _webhook(data: bytes) -> bool:
    """Read a webhook: lines of headers, an empty line and a body; the signature is made new for half of them."""
    head, _, body = data.partition(b"\n\n")
    lines = [line.partition(b":") for line in head.split(b"\n")]
    headers = {name.decode("latin-1").lower(): value.strip().decode("latin-1") for name, _, value in lines}
    verifier = Verifier([SECRET], lambda: NOW)
    for given in (headers, headers | signed(body, SECRET)):
        try:
            verifier.verify(given, body)
            assert given is not headers or headers["webhook-id"]
            read_feedback(given, body)
        except (SignatureError, InvalidInputError, pydantic.ValidationError):
            continue
        return True
    return False


def _webhooks() -> list[bytes]:
    feedback = b'{"prediction_id": "m:a", "true_label": "a"}'
    event = (
        b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "subject": "m:a", "data": {"correct": true}}'
    )
    binary = {
        "ce-id": "1",
        "ce-source": "s",
        "ce-type": "t",
        "ce-specversion": "1.0",
        "content-type": "application/json",
    }
    found = []
    for body, more in (
        (feedback, {}),
        (b'{"type": "t", "data": %b}' % feedback, {"content-type": "application/json"}),
        (event, {"content-type": "application/cloudevents+json"}),
        (feedback, binary),
    ):
        head = "\n".join(f"{name}: {value}" for name, value in (signed(body, SECRET) | more).items())
        found.append(head.encode() + b"\n\n" + body)
    return found


_PLAIN = {kind for kind, _ in COMMON}
_MADE: list[tuple[type[Body], Any]] = [
    (ModelDefinition, definition("m")),
    (ModelDefinition, definition("m", features={"kind": "named", "fields": {"a": {"type": "number", "minimum": 0}}})),
    (ModelPatch, {"labels": {"add": ["a"], "retire": ["b"]}, "window_seconds": 60.0}),
    (ImportRequest, {"source": "s", "offset": 0, "rounds": [{"context": {"a": "b"}, "true_label": "a"}]}),
    (FeedbackRequest, {"prediction_id": "m:a", "true_labels": ["a", "\u00e9"]}),
]


def targets() -> list[Target]:
    """Return a target for each kind of body, and one for webhooks."""
    intact = defaultdict[type[Body], list[bytes]](list)
    for kind, text in [*COMMON, *bodies(), *((kind, json.dumps(body)) for kind, body in _MADE)]:
        intact[kind].append(text.encode())

    def of(kind: type[Body]) -> Target:
        return Target(f"body-{kind.__name__}", intact[kind], lambda body: _both_ways(kind, body))

    return [*map(of, intact), Target("webhook", _webhooks(), _webhook)]
