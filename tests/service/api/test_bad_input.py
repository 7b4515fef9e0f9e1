"""The law of bad input: each bad request gets a problem that names the field, and changes nothing."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from service.error_messages.values import shown
from service.store import keys
from service.store.embedded.server import EmbeddedServer
from service.store.values import Due
from tests.servers import raw
from tests.service.api.test_webhooks import SECRET, signed
from tests.service.bad_requests import FEEDBACK, REFUSED
from tests.service.refused import FULL_INFORMATION, LABEL_SET, MODEL, MOST_BYTES, RANKING, Refused, X
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, Running, running, worker

SHOWS_VALUE = {"wrong-type", "out-of-range", "unknown-choice", "invalid-name", "not-finite", "unknown-label"}
MODELS = (MODEL, FULL_INFORMATION, LABEL_SET, RANKING)


class Stage(NamedTuple):
    """A worker with models that have an open, a closed and an expired prediction."""

    worker: Running
    store_url: str  # of the stage alone, since upkeep for models of other tests writes too
    baseline: list[str | int]  # `everything` before the first request

    def send(self, request: Refused) -> httpx2.Response:
        return self.worker.send(request.method, request.path, request.stream(), **request.headers)

    def everything(self) -> list[str | int]:
        """Return the models, their logs, and the number of their store keys without those that upkeep writes."""
        paths = [f"/models/{name}{more}" for name in MODELS for more in ("", "/rounds")]
        answers = [self.worker.send("GET", path).text for path in paths]
        return [*answers, len(keys_of(self.store_url))]


def keys_of(store_url: str) -> set[bytes]:
    """Return the keys that requests write: no statistics, no probes, and no lists of models that workers maintain."""
    lists = {keys.TRAFFIC.encode(), *(due.encode() for due in Due)}
    with raw(store_url) as store:
        return {key for key in store.scan_iter("*", 10_000) if not key.endswith((b":tally", b"probe"))} - lists


async def prepare(store_url: str) -> None:
    features = {"kind": "dense", "size": 3, "norm": "reject", "intercept": False}
    full = {"algorithm": "gaptron", "information": "full"}
    async with worker(store_url, Clock(START - 61.0)) as client:
        for path, body in [
            ("/models", definition(MODEL, features=features, window_seconds=60.0)),
            ("/models", definition(FULL_INFORMATION, learner=full)),
            ("/models", definition(LABEL_SET, learner={"algorithm": "fenchel-young-multilabel"})),
            ("/models", definition(RANKING, learner={"algorithm": "fenchel-young-ranking"})),
            ("/predict", {"model": MODEL, "context": X, "prediction_id": "expired"}),
            ("/predict", {"model": MODEL, "context": X, "prediction_id": "off-expired", "activated": False}),
        ]:
            assert (await client.post(path, json=body)).status_code < 300


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Run one worker for the whole table, because nothing may change; its clock does not move, so it writes nothing."""
    with EmbeddedServer(tmp_path_factory.mktemp("store")) as store:
        asyncio.run(prepare(store.url))
        with running(store.url, max_body_bytes=MOST_BYTES, webhook_secrets=SECRET) as one:
            yield staged(one, store.url)


def staged(one: Running, store_url: str) -> Stage:
    sent: list[tuple[str, dict[str, Any]]] = [
        ("/predict", {"model": name, "context": X, "prediction_id": "open"}) for name in MODELS
    ]
    sent += [("/predict", {"model": MODEL, "context": X, "prediction_id": "closed"})]
    sent += [("/predict", {"model": MODEL, "context": X, "prediction_id": "off", "activated": False})]
    sent += [("/feedback", {"prediction_id": f"{MODEL}:closed", "correct": True})]
    for path, body in sent:
        assert one.post(path, body).is_success
    built = Stage(one, store_url, [])
    return built._replace(baseline=built.everything())


def given_value(request: Refused, field: str) -> Any:
    """Return the value that a request has at the path of a field."""
    if request.path.startswith("/predictions/"):
        return request.path.removeprefix("/predictions/")
    if request.content is None:
        return parse_qs(urlsplit(request.path).query)[field][0]
    value = json.loads(request.content)
    for step in field.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


@pytest.mark.parametrize("request_", REFUSED, ids=lambda request: request.id)
def test_bad_input_is_refused_and_changes_nothing(stage: Stage, request_: Refused) -> None:
    """The answer is the expected problem with the field and the value; models, logs and store are unchanged.

    The worker's client checks that each problem is declared, and in plain words.
    """
    response = stage.send(request_)
    assert response.headers["content-type"] == "application/problem+json"
    problem, field = response.json(), request_.field
    slug = problem["type"].removeprefix("urn:wager:problem:")
    assert (response.status_code, slug, problem.get("field")) == (request_.status, request_.slug, field)
    assert problem["status"] == response.status_code
    assert problem["title"]
    if slug in SHOWS_VALUE and field not in {None, "name", "shadow"}:  # these are parts of the path
        value = given_value(request_, str(field))
        names = [f"the name {shown(name)}" for name in value] if isinstance(value, dict) else []
        assert any(f"got {text};" in problem["detail"] for text in (shown(value), *names))
    assert stage.everything() == stage.baseline


@pytest.mark.parametrize("request_", FEEDBACK, ids=lambda request: request.id)
def test_feedback_in_a_batch_or_a_webhook_is_refused_alike(stage: Stage, request_: Refused) -> None:
    assert request_.content is not None
    body, single = request_.content, stage.send(request_).json()
    (batch,) = stage.worker.post("/feedback/batch", b'{"feedback":[' + body + b"]}").json()["results"]
    webhook = stage.worker.post("/webhooks/feedback", body, **signed(body)).json()
    assert webhook["status"] in {request_.status, "ignored"}
    assert batch["type"] == single["type"]
    assert "request_id" not in batch
    if request_.slug in SHOWS_VALUE:
        assert batch["detail"] == webhook["detail"] == single["detail"]
    assert stage.everything() == stage.baseline


@pytest.mark.parametrize(("path", "before", "item", "after"), [
    ("/predict", b'{"model":"bad-input","context":[', b'""', b"]}"),
    ("/models", b'{"name":"bad-input-new","labels":[', b"0", b"]}"),
    ("/predict", b'{"model":"bad-input","context":[0.6,0.8,0.0]', b',"%d":0', b"}"),
    ("/predict/batch", b'{"model":"bad-input","contexts":[[1.0]],"prediction_ids":[', b"0", b"]}"),
], ids=["context", "labels", "fields", "ids"])  # fmt: skip
def test_the_length_of_a_problem_is_bounded(stage: Stage, path: str, before: bytes, item: bytes, after: bytes) -> None:
    if b"%d" in item:
        content = before + b"".join(item % number for number in range(2000)) + after
    else:
        content = before + b",".join([item] * 5000) + after
    response = stage.send(Refused("", "POST", path, content, 422, "", None))
    assert response.status_code == 422
    assert len(response.json().get("errors", [])) <= 100
    assert len(response.content) <= 2 * len(content)
