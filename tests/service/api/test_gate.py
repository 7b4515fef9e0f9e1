"""The law of the gate: an operation answers every request as FastAPI does, with the same checks before and after it."""

import asyncio
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import httpx2
import pytest
from fastapi.routing import APIRoute

from service.access.key_admin import KeyAdmin
from service.api import application
from service.api.middleware.exchange import ONE_WRITE
from service.api.responses.operation import Operation
from service.store.access.api_keys import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.api.test_direct_route import FEEDBACK, PREDICTIONS, TYPES, WITH_PARAMETERS
from tests.service.bad_requests import REFUSED
from tests.service.gates import gate_over, scope_of
from tests.service.keyed import bearer, key_admin_at
from tests.service.refused import FULL_INFORMATION, LABEL_SET, MODEL, MOST_BYTES, RANKING, Refused, X
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, worker

OPERATIONS = ("/predict", "/predict/batch", "/feedback", "/feedback/batch", "/activate")
ORIGIN = "https://shop.example"

PREDICT = json.dumps({"model": MODEL, "context": X}).encode()
FEED = json.dumps({"prediction_id": f"{MODEL}:open", "correct": True}).encode()
BODIES = {
    "/predict": PREDICT,
    "/predict/batch": json.dumps({"model": MODEL, "contexts": [X, X]}).encode(),
    "/feedback": FEED,
    "/feedback/batch": json.dumps({"feedback": [json.loads(FEED)] * 2}).encode(),
    "/activate": json.dumps({"prediction_id": f"{MODEL}:open"}).encode(),
}
"""A valid request to each operation."""

HEADERS: list[dict[str, str]] = [
    {},
    {"X-Request-ID": "mine"},
    {"X-Request-ID": "not good"},
    {"Origin": ORIGIN},
    {"Origin": "https://evil.example"},
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {"Authorization": "Bearer wk_no"},
    {"Authorization": "Basic dXNlcg=="},
    {"Authorization": "Bearer"},
    {"X-API-Key": "wk_no"},
    {"Connection": "close"},
    {"Expect": "nothing"},
    {"Accept": "text/html"},
]
JSON_TYPE = {"content-type": "application/json"}
QUERIES = ["?", "?a=1", "?model=m&model=n"]


class Ways(NamedTuple):
    """Two workers with the same settings and store: one with operations, one that gives every request to FastAPI."""

    runner: asyncio.Runner
    direct: httpx2.AsyncClient
    general: httpx2.AsyncClient

    def answers(self, request: Refused, path: str = "", headers: dict[str, str] | None = None) -> list[tuple[Any, ...]]:
        """Return what both ways answer to a request, without what differs between any two requests."""
        given = request.headers if headers is None else headers
        sent = [
            client.request(request.method, path or request.path, content=request.stream(), headers=given)
            for client in (self.direct, self.general)
        ]
        return [shown(self.runner.run(each)) for each in sent]


def asked(path: str, content: bytes | None, method: str = "POST", *, in_chunks: bool = False) -> Refused:
    """Return a request that may be valid."""
    return Refused("", method, path, content, 0, "", None, in_chunks=in_chunks)


def shown(answer: httpx2.Response) -> tuple[Any, ...]:
    """Return the status, the headers and the body of an answer, without ids, draws and the lengths that they set."""
    headers = {name: value for name, value in answer.headers.multi_items() if name != "content-length"}
    made = headers.pop("x-request-id")
    body = json.loads(answer.content.replace(made.encode(), b"REQUEST")) if answer.content else None
    return answer.status_code, sorted(headers.items()), len(made), stable(body)


def stable(value: Any) -> Any:
    """Return a JSON value without what a draw decides."""
    if isinstance(value, dict):
        drawn = ("prediction_id", "label", "labels", "propensity")
        return {name: ... if name in drawn else stable(each) for name, each in value.items()}
    return [stable(each) for each in value] if isinstance(value, list) else value


async def prepare(client: httpx2.AsyncClient) -> None:
    """Create the models that the refused requests name."""
    features = {"kind": "dense", "size": 3, "norm": "reject", "intercept": False}
    learners: dict[str, dict[str, Any]] = {
        MODEL: {},
        FULL_INFORMATION: {"learner": {"algorithm": "gaptron", "information": "full"}},
        LABEL_SET: {"learner": {"algorithm": "fenchel-young-multilabel"}},
        RANKING: {"learner": {"algorithm": "fenchel-young-ranking"}},
    }
    for name, learner in learners.items():
        own = {"features": features} if name == MODEL else {}
        await client.delete(f"/models/{name}")  # other tests on this store may have made one
        assert (await client.post("/models", json=definition(name, **own, **learner))).status_code == 201
    for name, own_id in [(MODEL, "closed"), *((name, "open") for name in learners)]:
        body: dict[str, Any] = {"model": name, "context": X, "prediction_id": own_id}
        assert (await client.post("/predict", json=body)).status_code == 200
    body = {"model": MODEL, "context": X, "prediction_id": "off", "activated": False}
    assert (await client.post("/predict", json=body)).status_code == 200
    assert (await client.post("/feedback", json={"prediction_id": f"{MODEL}:closed", "correct": True})).is_success
    assert (await client.post("/feedback", json={"prediction_id": f"{MODEL}:open", "correct": True})).is_success


@pytest.fixture(scope="module")
def ways(store_url: str) -> Iterator[Ways]:
    """Run the two workers, without API keys."""
    settings: dict[str, Any] = {"max_body_bytes": MOST_BYTES, "cors_origins": ORIGIN}
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        one = worker(store_url, Clock(START), **settings)
        direct = runner.run(one.__aenter__())
        patch.setattr(application, "_operations", lambda _: {})
        other = worker(store_url, Clock(START), **settings)
        general = runner.run(other.__aenter__())
        runner.run(prepare(direct))
        yield Ways(runner, direct, general)
        for each in (one, other):
            runner.run(each.__aexit__(None, None, None))


TABLE = [each for each in REFUSED if each.path in OPERATIONS]


@pytest.mark.parametrize("request_", TABLE, ids=lambda request: request.id)
def test_both_ways_refuse_alike(ways: Ways, request_: Refused) -> None:
    """Every bad request gets the same problem with the same headers."""
    for version in ("", "/v1"):
        direct, general = ways.answers(request_, version + request_.path)
        assert direct == general
        assert direct[0] >= 400 or request_.path.endswith("batch")


@pytest.mark.parametrize("path", OPERATIONS)
def test_both_ways_answer_alike(ways: Ways, path: str) -> None:
    """Valid requests with any headers, queries, media types and methods get the same answers."""
    types = [",".join(each) for each in TYPES if each] + WITH_PARAMETERS + ["application/json; charset=latin-1"]
    sent: list[tuple[str, str, dict[str, str]]] = []
    for at in (path, "/v1" + path):
        sent += [("POST", at, JSON_TYPE | each) for each in HEADERS]
        sent += [("POST", at, {"content-type": each}) for each in types] + [("POST", at, {})]
        sent += [("POST", at + more, JSON_TYPE) for more in (*QUERIES, "/")]
        sent += [(method, at, JSON_TYPE) for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")]
    statuses = set()
    for method, at, headers in sent:
        request = asked(at, BODIES[path], method)
        direct, general = ways.answers(request, headers=headers)
        assert direct == general, (method, at, headers)
        statuses.add(direct[0])
    assert statuses >= {200, 400, 401, 404, 405, 415}


@pytest.mark.parametrize(
    ("path", "body"), [("/predict", each) for each in PREDICTIONS] + [("/feedback", each) for each in FEEDBACK]
)
def test_both_ways_read_alike(ways: Ways, path: str, body: str) -> None:
    """Odd numbers, repeated members and broken JSON get the same answers."""
    direct, general = ways.answers(asked(path, body.encode("utf-8", "surrogatepass")))
    assert direct == general


@pytest.mark.parametrize("size", [0, 1, MOST_BYTES, MOST_BYTES + 1])
@pytest.mark.parametrize("in_chunks", [False, True])
def test_both_ways_limit_bodies_alike(ways: Ways, size: int, in_chunks: bool) -> None:
    """Bodies of any size, with a declared length or in chunks, get the same answers."""
    content = (b" " * max(0, size - len(PREDICT)) + PREDICT)[:size] if size else b""
    direct, general = ways.answers(asked("/predict", content, in_chunks=in_chunks))
    assert direct == general
    assert direct[0] == {0: 422, 1: 400, MOST_BYTES: 200}.get(size, 413)


class Arrived:
    """A server that has the whole body before the application begins, and writes nothing at once."""

    body_has_arrived = True

    def __init__(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.headers = dict(headers)

    def write(self, head: bytes, body: bytes) -> bool:  # noqa: ARG002  the interface
        """See `OneWrite`."""
        return False


@pytest.mark.parametrize(("size", "status"), [(100, 200), (101, 413)])
async def test_the_declared_length_limits_a_body_that_has_arrived(size: int, status: int) -> None:
    """Nothing counts its bytes."""

    async def answer(given: list[int]) -> list[int]:
        return given

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"[1]".ljust(size), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def never(*_: Any) -> None:
        raise AssertionError("FastAPI is not asked")

    sent: list[Any] = []
    operation = Operation(APIRoute("/predict", answer), list[int], answer)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % size)]
    scope = scope_of("POST", "/predict", headers) | {"extensions": {ONE_WRITE: Arrived(headers)}}
    await gate_over(never, body_bytes=100, operations={"/predict": operation})(scope, receive, send)
    assert sent[0]["status"] == status


async def test_both_ways_check_keys_alike(store_url: str, store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scope, pattern of names and limit admits and refuses the same requests."""
    admin: KeyAdmin = key_admin_at(ApiKeyTable(store.command))
    keys = [await admin.create("k", [scope]) for scope in ("predict", "feedback", "read", "admin")]
    keys += [await admin.create("k", ["admin"], models=models) for models in ("other-*", "ke*")]
    limited = [await admin.create("k", ["predict", "feedback"], limit="3/hour") for _ in range(2)]
    given = [*map(bearer, keys), {"X-API-Key": keys[0].text}, bearer(keys[0]) | {"X-API-Key": keys[1].text}]
    given += [{}, bearer(f"wk_{'0' * 12}_{'0' * 64}"), {"Authorization": "Basic x", "X-API-Key": keys[3].text}]
    async with worker(store_url, auth="required") as direct:
        monkeypatch.setattr(application, "_operations", lambda _: {})
        async with worker(store_url, auth="required") as general:
            admitted = await direct.post("/models", json=definition("keyed"), headers=bearer(keys[3]))
            assert admitted.status_code == 201
            statuses = set()
            for headers, path in itertools.product(given, OPERATIONS):
                body, sent = BODIES[path].replace(MODEL.encode(), b"keyed"), headers | JSON_TYPE
                found = [shown(await each.post(path, content=body, headers=sent)) for each in (direct, general)]
                assert found[0] == found[1], (headers, path)
                statuses.add(found[0][0])
            for _ in range(5):
                body = PREDICT.replace(MODEL.encode(), b"keyed")
                found = []
                for client, key in zip((direct, general), limited, strict=True):
                    headers = bearer(key) | JSON_TYPE
                    found.append(without_reset(shown(await client.post("/predict", content=body, headers=headers))))
                assert found[0] == found[1]
                statuses.add(found[0][0])
    assert statuses == {200, 401, 403, 404, 429}


def without_reset(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an answer without the seconds until a limit resets, which pass."""
    status, headers, _, body = answer
    kept = [(name, value.partition(";t=")[0]) for name, value in headers if name != "retry-after"]
    return status, kept, body
