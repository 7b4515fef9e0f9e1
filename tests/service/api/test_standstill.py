"""The law of the event loop: no request, however large, blocks it for more than 50 ms.

The measure is the thread's CPU time from the start of a callback to its end. A busy machine takes longer for the
same work, so each request has several attempts; a callback that is too long exceeds the limit in all of them.
"""

import asyncio
import json
import time
from typing import Any, NamedTuple

import httpx2
import numpy as np
import pytest

from service.store.redis.redis_store import RedisStore
from tests.service.api.many_changes import make_many_changes
from tests.service.sample_models import SIZE
from tests.service.workers import worker

LONGEST = 0.05
TRIES = 5
MANY = 100_000
MODELS = 100
UNKNOWN = [f"unknown-{i}" for i in range(20)]
BODY = 4 * 2**20 - 1000
DEEP_FILE = (BODY - 8).to_bytes(8, "little") + b"[" * (BODY - 8)
"""Nearly the largest permitted body, in bytes."""


class Callbacks:
    """Records the longest callback of an event loop."""

    def __init__(self) -> None:
        self.longest, self.what = 0.0, ""

    def restart(self) -> None:
        """Discard the record."""
        self.longest, self.what = 0.0, ""

    def note(self, seconds: float, handle: asyncio.Handle) -> None:
        """Record the callback if it is the longest."""
        if seconds > self.longest:
            self.longest, self.what = seconds, repr(handle)


@pytest.fixture
def callbacks(monkeypatch: pytest.MonkeyPatch) -> Callbacks:
    """Record the callbacks of all event loops in the test."""
    noted, run = Callbacks(), asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        noted.note(time.thread_time() - began, handle)

    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    return noted


class Large(NamedTuple):
    """A large request and its expected status."""

    what: str
    method: str
    path: str
    body: bytes
    status: int


def json_body(**body: Any) -> bytes:
    """Return a body as JSON."""
    return json.dumps(body).encode()


def requests() -> list[Large]:
    """Return requests of nearly the largest size, for the models of `make_models`."""
    labels = [f"label {i:025}" for i in range(MANY)]
    rows = np.random.default_rng(1).normal(size=(1000, 200)).tolist()
    ones = b",".join([b"1"] * (BODY // 2 - 100))
    unknown = b",".join(b'"a%d":1' % i for i in range(BODY // 12))
    indices = {"indices": list(range(190_000)), "values": [0.5] * 190_000}
    few, ids = [[0.0] * SIZE] * 10, [f"i{i}" for i in range(1000)]
    start = b'{"model":"dense","context":['
    return [
        Large("many labels", "POST", "/models", json_body(name="more", labels=labels, **REST), 201),
        Large("an existing model", "POST", "/models", json_body(name="labels", labels=labels, **REST), 409),
        Large("the model", "GET", "/models/labels", b"", 200),
        Large("its changes", "GET", "/models/labels/changes", b"", 200),
        *change_requests(),
        Large("a prediction", "POST", "/predict", json_body(model="labels", context=few[0]), 200),
        Large("a distribution", "POST", "/predict", prediction_body("labels", few[0], True), 200),
        Large("distributions", "POST", "/predict/batch", batch("labels", few, include_distribution=True), 200),
        Large("many contexts", "POST", "/predict/batch", batch("dense", rows), 200),
        Large("with ids", "POST", "/predict/batch", batch("dense", rows, prediction_ids=ids), 200),
        Large("one wrong", "POST", "/predict/batch", batch("dense", [*rows[:-1], ["x"] * 200]), 200),
        Large("all wrong", "POST", "/predict/batch", batch("dense", [["x"] * 200] * 1000), 200),
        Large("all wrong and short", "POST", "/predict/batch", batch("dense", [["x"]] * 1000), 200),
        Large("many wrong fields", "POST", "/feedback/batch", json_body(feedback=[dict.fromkeys(UNKNOWN)] * 1000), 200),
        Large("too many", "POST", "/predict/batch", batch("dense", [[1]] * (BODY // 6)), 422),
        Large("one long context", "POST", "/predict/batch", b'{"model":"dense","contexts":[[' + ones + b"]]}", 200),
        Large("one long context", "POST", "/predict", start + ones + b"]}", 422),
        Large("one sparse context", "POST", "/predict", json_body(model="sparse", context=indices), 200),
        Large("unknown fields", "POST", "/predict", b"{" + unknown + b"}", 422),
        Large("unknown fields", "POST", "/models", b'{"name":"x",' + unknown + b"}", 422),
        Large("unknown fields inside", "POST", "/predict", b'{"model":"dense","context":{' + unknown + b"}}", 422),
        Large("hyperparameters", "POST", "/models", b'{"learner":{"algorithm":"x",' + unknown + b"}}", 422),
        Large("unknown items", "POST", "/feedback/batch", b'{"feedback":[{' + unknown + b"}]}", 422),
        Large("deep", "POST", "/predict", b"[" * BODY, 422),
        Large("not JSON", "POST", "/predict", start + ones + b"}", 400),
        Large("not numbers", "POST", "/predict", start + ones.replace(b"1", b"NaN")[:BODY], 400),
        *named_requests(),
        Large("the log", "GET", "/models/dense/rounds?limit=10000", b"", 200),
        *report_requests(),
        *copy_requests(ones),
    ]


def change_requests() -> list[Large]:
    """Return requests that read many changes."""
    return [
        Large("many changes", "GET", "/models/changed/changes?after=9000&limit=1000", b"", 200),
        Large("a model with many changes", "GET", "/models/changed", b"", 200),
        Large("its log", "GET", "/models/changed/rounds", b"", 200),
    ]


def copy_requests(no_file: bytes) -> list[Large]:
    """Return requests that copy the state of a model; `no_file` is what no model can be imported from."""
    return [
        Large("a snapshot", "POST", "/models/labels/snapshots", json_body(), 201),
        Large("a rollback to nothing", "POST", "/models/labels/rollback", json_body(snapshot="none"), 428),
        Large("a copy", "POST", "/models/labels/clone", json_body(name="copied"), 201),
        Large("a file", "GET", "/models/labels/export", b"", 200),
        Large("no file of a model", "POST", "/models/imported/import", no_file, 422),
        Large("a deep file", "POST", "/models/imported/import", DEEP_FILE, 422),
    ]


def report_requests() -> list[Large]:
    """Return requests for numbers about models: of one, and of as many as a page holds."""
    return [
        Large("a first evaluation", "GET", "/models/labels/evaluation?rounds=100000", b"", 200),
        Large("an evaluation", "GET", "/models/dense/evaluation?rounds=100000", b"", 200),
        Large("statistics of labels", "GET", "/models/labels/statistics", b"", 200),
        Large("statistics of rounds", "GET", "/models/dense/statistics", b"", 200),
        Large("statistics of models", "GET", "/statistics?limit=200", b"", 200),
    ]


def named_requests() -> list[Large]:
    """Return large requests with named features, for labels and for actions."""
    contexts = [{f"n{i}": i / 7 + j for i in range(20)} for j in range(1000)]
    actions = [{"id": f"a{i}", "features": {f"n{k}": i + k / 8 for k in range(12)}} for i in range(10_000)]
    few, ids = {"u": {"age": 41.0, "country": "FR"}}, [f"named-{i}" for i in range(1000)]
    asked: dict[str, Any] = {"model": "shop", "context": few, "actions": actions}
    policy = {"policy": {"a1": 1.0}}  # not in this mode
    deep = [{"a": {"b": {"t": [f"{j} {i}" for i in range(3900)]}}} for j in range(60)]
    numbers = [{"n": {space: {f"n{i}": i + j / 7 for i in range(970)} for space in "abcd"}} for j in range(40)]
    crossed = [{"a": {"x": {"y": UNKNOWN * 3}}, "b": {"x": {"y": [f"{j} {i}" for i in range(62)]}}} for j in range(330)]
    too_deep = {"n": {f"s{k}": {f"n{i}": i for i in range(1000)} for k in range(200)}}
    wide = [{"id": f"w{j}", "features": {f"n{i}": i + j / 7 for i in range(960)}} for j in range(140)]
    refused = [{"context": {"x": 1}, "eligible": ["c"], "prediction_id": id_} for id_ in ids]
    return [
        Large("named contexts", "POST", "/predict/batch", batch("named", contexts), 200),
        Large("named with ids", "POST", "/predict/batch", batch("named", contexts, prediction_ids=ids), 200),
        Large("actions", "POST", "/predict", json_body(**asked), 200),
        Large("actions with an id", "POST", "/predict", json_body(**asked, prediction_id="shop:1"), 200),
        Large("refused actions", "POST", "/predict", json_body(**asked, **policy, prediction_id="shop:1"), 422),
        Large("deep lists", "POST", "/predict/batch", batch("named", deep, prediction_ids=ids[: len(deep)]), 200),
        Large("deep numbers", "POST", "/predict/batch", batch("named", numbers), 200),
        Large("products", "POST", "/predict/batch", batch("crossed", crossed, prediction_ids=ids[: len(crossed)]), 200),
        Large("one too deep", "POST", "/predict", json_body(model="named", context=too_deep), 422),
        Large("large actions", "POST", "/predict", json_body(**asked | {"actions": wide}), 200),
        Large("an explanation", "POST", "/models/shop/explain", json_body(context={}, actions=actions[:3000]), 200),
        Large("refused items", "POST", "/predict/batch", json_body(model="named", items=refused), 200),
    ]


REST: dict[str, Any] = {"features": {"kind": "dense", "size": SIZE}, "learner": {"algorithm": "uniform"}}


def prediction_body(model: str, context: Any, include_distribution: bool) -> bytes:
    """Return the body of a prediction."""
    return json_body(model=model, context=context, include_distribution=include_distribution)


def batch(model: str, contexts: list[Any], **more: Any) -> bytes:
    """Return the body of a batch_body of predictions."""
    return json_body(model=model, contexts=contexts, **more)


async def send(client: httpx2.AsyncClient, method: str, path: str, body: bytes) -> httpx2.Response:
    """Send one request."""
    headers = {"content-type": "application/octet-stream" if path.endswith("/import") else "application/json"}
    return await client.request(method, path, content=body, headers=headers, timeout=60.0)


async def make_models(client: httpx2.AsyncClient) -> None:
    """Create the models that the requests use, one with a log."""
    labels = [f"label {i:025}" for i in range(MANY)]
    two = {"labels": ["a", "b"], "learner": {"algorithm": "gaptron"}}
    for body in (
        json_body(name="labels", labels=labels, **REST),
        json_body(name="dense", features={"kind": "dense", "size": 200}, **two),
        json_body(name="named", features={"kind": "named"}, **two | {"learner": {"algorithm": "fastcb"}}),
        json_body(name="crossed", features={"kind": "named", "interactions": [["a", "b"]]}, labels=["a", "b"]),
        json_body(name="shop", features={"kind": "named"}, actions={"features": {"kind": "named"}}),
        json_body(name="sparse", features={"kind": "sparse", "size": 200_000}, **two),
    ):
        await client.delete(f"/models/{json.loads(body)['name']}")  # of another test with the same store
        assert (await send(client, "POST", "/models", body)).status_code == 201
    rows = np.random.default_rng(2).normal(size=(1000, 200)).tolist()
    drawn = (await send(client, "POST", "/predict/batch", batch("dense", rows))).json()["predictions"]
    feedback = [{"prediction_id": each["prediction_id"], "correct": True} for each in drawn]
    assert (await send(client, "POST", "/feedback/batch", json_body(feedback=feedback))).status_code == 200
    assert (
        await send(client, "POST", "/predict", prediction_body("sparse", {"indices": [1], "values": [1.0]}, False))
    ).is_success


async def make_many_models(client: httpx2.AsyncClient) -> None:
    """Create models that fill a page of statistics, and a log so short that its evaluation costs little."""
    for i in range(MODELS):
        assert (await send(client, "POST", "/models", json_body(name=f"one-of-many-{i}", labels=["a", "b"]))).is_success
    item = {"context": [0.0] * SIZE, "label": f"label {MANY - 1:025}", "propensity": 0.5, "correct": True}
    body = json_body(source="few", offset=0, rounds=[item] * 200)
    assert (await send(client, "POST", "/models/labels/rounds", body)).status_code == 200


async def test_no_request_blocks_the_event_loop(store_url: str, store: RedisStore, callbacks: Callbacks) -> None:
    """Parsing, validating, deciding, storing and answering yield to the event loop at least every 50 ms."""
    async with worker(store_url) as client:
        await make_models(client)
        await make_many_changes(client, store, "changed")
        await make_many_models(client)
        held = []
        for request in requests():
            longest, what = await shortest_block(client, request, callbacks)
            if longest > LONGEST:
                held.append(f"{request.what} ({request.path}): {longest * 1000:.0f} ms in {what}")
        for i in range(MODELS):
            await client.delete(f"/models/one-of-many-{i}")
        assert held == []


async def test_no_import_blocks_the_event_loop(store_url: str, callbacks: Callbacks) -> None:
    """An import of nearly the largest size, logged, labelled or wrong at its end, yields every 50 ms."""
    rows = np.random.default_rng(3).normal(size=(1000, 200)).tolist()
    logged = [{"context": row, "label": "a", "propensity": 0.5, "correct": True} for row in rows]
    labelled = [{"context": row, "true_label": "a"} for row in rows]
    wrong = [*logged[:-1], {**logged[-1], "propensity": 2}]
    named = [{"context": {"t": [f"{j} {i}" for i in range(300)]}, "true_label": "a"} for j in range(900)]
    empty = [{"context": {}, "label": "a", "propensity": 1, "correct": True}] * 40_000
    deep = [{"context": {"s": {f"n{i}": i + j / 7 for i in range(970)}}, "true_label": "b"} for j in range(160)]
    actions = [{"id": f"a{i}", "features": {f"n{k}": i + k / 8 for k in range(12)}} for i in range(100)]
    asked = {"context": {"u": {"age": 41.0}}, "actions": actions}
    chosen = [{**asked, "label": "a7", "propensity": 0.25, "reward": 0.5}] * 150
    true = [{**asked, "true_label": "a9"}] * 150
    async with worker(store_url) as client:
        await make_models(client)
        held = []
        for model, rounds, status in (
            ("named", [*empty, {"context": {}, "label": "z", "propensity": 1, "correct": True}], 422),
            ("named", deep, 200),
            ("shop", chosen, 200),
            ("shop", [*true, {**asked, "true_label": "z"}], 422),
            ("shop", true, 200),
            ("dense", logged, 200),
            ("dense", labelled, 200),
            ("dense", wrong, 422),
            ("named", named, 200),
        ):
            longest = []
            for attempt in range(TRIES):
                body = json_body(source=f"s{status}-{attempt}-{id(rounds)}", offset=0, rounds=rounds)
                await asyncio.sleep(0)
                callbacks.restart()
                response = await send(client, "POST", f"/models/{model}/rounds", body)
                assert response.status_code == status, response.text[:300]
                longest.append((callbacks.longest, callbacks.what))
                if callbacks.longest <= LONGEST:
                    break
            held += [(model, status, *min(longest))] if min(longest)[0] > LONGEST else []
        assert held == []


async def shortest_block(client: httpx2.AsyncClient, request: Large, callbacks: Callbacks) -> tuple[float, str]:
    """Return the longest callback of a request, in the best of several attempts."""
    holds = []
    for _ in range(TRIES):
        if request.what == "many labels":
            await client.delete("/models/more")
        await asyncio.sleep(0)
        callbacks.restart()
        response = await send(client, request.method, request.path, request.body)
        assert response.status_code == request.status, (request.what, response.text[:300])
        holds.append((callbacks.longest, callbacks.what))
        if callbacks.longest <= LONGEST:
            break
    return min(holds)
