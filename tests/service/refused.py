"""Requests that the service refuses, and functions that build them."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

from tests.service.sample_models import definition

MODEL = "bad-input"
FULL_INFORMATION = "bad-input-full"
LABEL_SET = "bad-input-set"
RANKING = "bad-input-ranking"
MOST_BYTES = 20_000
X = [0.6, 0.8, 0.0]
LONG = "9" * 400


class Refused(NamedTuple):
    id: str
    method: str
    path: str
    content: bytes | None
    status: int
    slug: str
    field: str | None
    content_type: str = "application/json"
    in_chunks: bool = False

    @property
    def headers(self) -> dict[str, str]:
        headers = {} if self.content is None else {"content-type": self.content_type}
        return headers | ({"if-match": "*"} if self.method == "PATCH" else {})

    def stream(self) -> AsyncIterator[bytes] | bytes | None:
        return _pieces(self.content) if self.in_chunks and self.content is not None else self.content


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]


def _post(case: str, path: str, body: object, status: int, slug: str, field: str | None = None) -> Refused:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Refused(case, "POST", path, content, status, slug, field)


def _get(case: str, path: str, status: int, slug: str, field: str | None = None) -> Refused:
    return Refused(case, "GET", path, None, status, slug, field)


def _predict(case: str, slug: str, field: str | None, *, status: int = 422, **changes: Any) -> Refused:
    body = {"model": MODEL, "context": X} | changes
    return _post(f"predict: {case}", "/predict", body, status, slug, field)


def _number(case: str, literal: str, slug: str) -> Refused:
    body = f'{{"model":"{MODEL}","context":[0.6,0.8,{literal}]}}'.encode()
    return _post(f"predict: {case}", "/predict", body, 422, slug, "context.2")


def _judge(case: str, slug: str, field: str | None, *, status: int = 422, **body: Any) -> Refused:
    return _post(f"feedback: {case}", "/feedback", {"prediction_id": f"{MODEL}:open"} | body, status, slug, field)


def _several(case: str, slug: str, field: str, model: str = LABEL_SET, **body: Any) -> Refused:
    return _judge(f"{model}: {case}", slug, field, prediction_id=f"{model}:open", **body)


def _create(case: str, slug: str, field: str | None, *, status: int = 422, **changes: Any) -> Refused:
    body = definition("bad-input-new", features={"kind": "dense", "size": 3, "norm": "unit"}) | changes
    return _post(f"create: {case}", "/models", body, status, slug, field)


def _features(case: str, slug: str, field: str, **changes: Any) -> Refused:
    return _create(case, slug, f"features.{field}", features={"kind": "dense", "size": 3} | changes)


def _learner(case: str, slug: str, field: str, **choice: Any) -> Refused:
    return _create(case, slug, f"learner.{field}", learner={"algorithm": "gaptron"} | choice)


def _raw(case: str, content: bytes, status: int, slug: str, field: str | None = None) -> Iterator[Refused]:
    for path in ("/models", "/predict", "/feedback", "/predict/batch", "/feedback/batch"):
        yield _post(f"{case} to {path}", path, content, status, slug, field)
