"""The law of bad input: each bad request gets a problem that names the field, and changes nothing."""

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.servers import raw
from tests.service.api.test_error_wording import SECRET
from tests.service.api.test_webhooks import signed
from tests.service.bad_requests import FEEDBACK, REFUSED
from tests.service.refused import FULL_INFORMATION, LABEL_SET, MODEL, MOST_BYTES, RANKING, Refused, X
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, worker

MODELS = (MODEL, FULL_INFORMATION, LABEL_SET, RANKING)


class Stage(NamedTuple):
    """A worker with models that have an open, a closed and an expired prediction."""

    runner: asyncio.Runner
    client: httpx2.AsyncClient
    store_url: str
    others: set[bytes]  # keys of other tests, which may expire
    baseline: list[str | int]  # `everything` before the first request

    def send(self, request: Refused) -> httpx2.Response:
        """Send a request unchanged."""
        return self.runner.run(
            self.client.request(request.method, request.path, content=request.stream(), headers=request.headers)
        )

    def post(self, path: str, **body: Any) -> None:
        """Post a request that must succeed."""
        response = self.runner.run(self.client.post(path, json=body))
        assert response.status_code < 300, response.text

    def everything(self) -> list[str | int]:
        """Return the models, their logs, and the number of their store keys without those that upkeep writes."""
        paths = [f"/models/{name}{more}" for name in MODELS for more in ("", "/rounds")]
        answers = [self.runner.run(self.client.get(path)).text for path in paths]
        return [*answers, len(keys_of(self.store_url) - self.others)]


def keys_of(store_url: str) -> set[bytes]:
    """Return the keys of a store without those that upkeep writes."""
    with raw(store_url) as store:
        return {key for key in store.scan_iter("*", 10_000) if not key.endswith((b":tally", b"probe"))}


async def prepare(store_url: str) -> None:
    """Create the models, and a prediction whose window has closed when the tests begin."""
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
def stage(store_url: str) -> Iterator[Stage]:
    """Run one worker for the whole table, because nothing may change.

    Its clock does not move, so it writes no snapshot.
    """
    others = keys_of(store_url)
    with asyncio.Runner() as runner:
        runner.run(prepare(store_url))
        context = worker(store_url, max_body_bytes=MOST_BYTES, webhook_secrets=SECRET)
        built = Stage(runner, runner.run(context.__aenter__()), store_url, others, [])
        for name, own in [
            (MODEL, "closed"),
            (MODEL, "open"),
            (FULL_INFORMATION, "open"),
            (LABEL_SET, "open"),
            (RANKING, "open"),
        ]:
            built.post("/predict", model=name, context=X, prediction_id=own)
        built.post("/predict", model=MODEL, context=X, prediction_id="off", activated=False)
        built.post("/feedback", prediction_id=f"{MODEL}:closed", correct=True)
        yield built._replace(baseline=built.everything())
        runner.run(context.__aexit__(None, None, None))


def test_the_requests_of_the_table_differ() -> None:
    """The requests of the table differ, and so do their ids."""
    assert len({request._replace(id="") for request in REFUSED}) == len(REFUSED)
    assert len({request.id for request in REFUSED}) == len(REFUSED)


@pytest.mark.parametrize("request_", REFUSED, ids=lambda request: request.id)
def test_bad_input_is_refused_and_changes_nothing(stage: Stage, request_: Refused) -> None:
    """The answer is the expected problem with the field; models, logs and store are unchanged."""
    response = stage.send(request_)
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    slug = problem["type"].removeprefix("urn:wager:problem:")
    assert (response.status_code, slug, problem.get("field")) == (request_.status, request_.slug, request_.field)
    assert problem["status"] == response.status_code
    assert problem["title"]
    assert problem["detail"]
    assert stage.everything() == stage.baseline


@pytest.mark.parametrize("request_", FEEDBACK, ids=lambda request: request.id)
def test_a_webhook_is_refused_or_ignored_and_changes_nothing(stage: Stage, request_: Refused) -> None:
    """The same feedback by webhook has no effect either, and its problem is one that the operation declares."""
    assert request_.content is not None
    headers = {"content-type": "application/json"} | signed(request_.content, SECRET)
    sent = stage.client.post("/webhooks/feedback", content=request_.content, headers=headers)
    response = stage.runner.run(sent)
    assert response.json()["status"] in {request_.status, "ignored"}
    assert stage.everything() == stage.baseline


@pytest.mark.parametrize(
    ("path", "before", "item", "after"),
    [
        ("/predict", b'{"model":"bad-input","context":[', b'""', b"]}"),
        ("/models", b'{"name":"bad-input-new","labels":[', b"0", b"]}"),
        ("/predict", b'{"model":"bad-input","context":[0.6,0.8,0.0]', b',"%d":0', b"}"),
        ("/predict/batch", b'{"model":"bad-input","contexts":[[1.0]],"prediction_ids":[', b"0", b"]}"),
    ],
    ids=["context", "labels", "fields", "ids"],
)
def test_the_length_of_a_problem_is_bounded(stage: Stage, path: str, before: bytes, item: bytes, after: bytes) -> None:
    """If many parts of a request are wrong, the answer lists at most 100, in at most twice the request's length."""
    if b"%d" in item:
        content = before + b"".join(item % number for number in range(2000)) + after
    else:
        content = before + b",".join([item] * 5000) + after
    response = stage.send(Refused("", "POST", path, content, 422, "", None))
    assert response.status_code == 422
    assert len(response.json().get("errors", [])) <= 100
    assert len(response.content) <= 2 * len(content)
