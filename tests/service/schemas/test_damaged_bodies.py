"""The law of bodies: pydantic's reader of bytes and FastAPI's way read the same, and nothing else is raised."""

import json
from typing import Any

import pydantic
import pytest
from hypothesis import given
from starlette.exceptions import HTTPException

from service.api.responses.bodies import check_text
from service.schemas.models import ModelDefinition, ModelPatch
from service.schemas.rounds import FeedbackRequest, ImportRequest, PredictRequest
from service.strict_body import Body
from tests.service.damaged_bytes import FUZZ, damaged
from tests.service.sample_models import definition

FIELDS = {"kind": "named", "fields": {"a": {"type": "number", "minimum": 0}}}
BODIES: dict[type[Body], list[Any]] = {
    ModelDefinition: [definition("m"), definition("m", features=FIELDS)],
    ModelPatch: [{"labels": {"add": ["a"], "retire": ["b"]}, "window_seconds": 60.0}],
    ImportRequest: [{"source": "s", "offset": 0, "rounds": [{"context": {"a": "b"}, "true_label": "a"}]}],
    PredictRequest: [{"model": "m", "context": [1.0, 2]}, {"model": "m", "context": {"indices": [0], "values": [1]}}],
    FeedbackRequest: [
        {"prediction_id": "m:a", "true_labels": ["a", "\u00e9"]},
        {"prediction_id": "m:a", "reward": 0.5},
    ],
}


def as_json(kind: type[Body], body: bytes) -> Body | None:
    try:
        return kind.model_validate_json(body)
    except pydantic.ValidationError:
        return None


def as_fastapi(kind: type[Body], body: bytes) -> Body | None:
    try:
        check_text(body)
        return kind.model_validate(json.loads(body), from_attributes=True)
    except (HTTPException, ValueError, RecursionError):
        return None


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_both_ways_read_alike(kind: type[Body]) -> None:
    intact = [json.dumps(each).encode() for each in BODIES[kind]]
    assert all(as_json(kind, each) for each in intact)

    @FUZZ
    @given(damaged(intact))
    def check(body: bytes) -> None:
        first, second = as_json(kind, body), as_fastapi(kind, body)
        assert first is None or repr(first) == repr(second)
        if second is not None:
            json.dumps(json.loads(body), ensure_ascii=False).encode()

    check()
