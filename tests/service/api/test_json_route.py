"""The laws of bodies: JSON in UTF-8, of any size, that leaves no garbage.

`tests/service/schemas/test_plain_bodies.py` compares the parsers.
"""

import gc
import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from service.api.responses.bodies import LARGE, MOST_MEMBERS
from service.api.responses.evaluation_failures import is_ofrep
from service.error_messages.json_text import HalfPairError, check_pairs
from service.store.embedded.server import EmbeddedServer
from tests.service.access.test_scopes import BODIES, CLOSED
from tests.service.api.http_api import problem_of
from tests.service.api.test_webhooks import SECRET, signed
from tests.service.bad_requests import REFUSED
from tests.service.evaluations import failure_of
from tests.service.refused import FULL_INFORMATION, LABEL_SET, MODEL, RANKING, X
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, Running, running, worker

JSON = "application/json"
PREDICT = '{"model":"m","context":[1]}'


async def post(client: httpx2.AsyncClient, path: str, body: bytes, *types: str) -> tuple[int, str, str]:
    """Return the status, the type of the problem, and its detail."""
    answer = await client.post(path, content=body, headers=[("Content-Type", value) for value in types])
    problem = answer.json()
    return answer.status_code, problem["type"].rpartition(":")[2], problem["detail"]


@pytest.mark.parametrize(
    "types",
    [(), ("",), ("text/plain",), ("text/plain", JSON), (JSON, "text/plain"), ("application/ld+json",)],
    ids=repr,
)
async def test_the_first_content_type_decides(client: httpx2.AsyncClient, types: tuple[str, ...]) -> None:
    found = await post(client, "/predict", PREDICT.encode(), *types)
    assert found[1] == (
        "model-not-found" if types[:1] in [(JSON,), ("application/ld+json",)] else "unsupported-media-type"
    )


@pytest.mark.parametrize("label", ["é", "é" * 40_000], ids=["small", "large"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1", "surrogates"])
async def test_only_utf_8_is_read(client: httpx2.AsyncClient, encoding: str, label: str) -> None:
    """A body in another encoding gets 400, though Python's parser would read most of them."""
    text = json.dumps({"prediction_id": "m:1", "true_label": label + "\ud800" * (encoding == "surrogates")})
    text = text.replace("\\u00e9", "é").replace("\\ud800", "\ud800")
    body = text.encode("utf-8", "surrogatepass") if encoding == "surrogates" else text.encode(encoding)
    status, slug, detail = await post(client, "/feedback", body, JSON)
    assert (status, slug) == (400, "invalid-json")
    assert detail.startswith("the body is not JSON: it is not UTF-8: byte 0x")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
async def test_null_bytes_are_not_utf_8(client: httpx2.AsyncClient, encoding: str) -> None:
    """ASCII text in UTF-16 or UTF-32 is decodable UTF-8, but has null bytes, which JSON never has."""
    status, _, detail = await post(client, "/predict", PREDICT.encode(encoding), JSON)
    assert status == 400
    assert detail.startswith("the body is not JSON: it is not UTF-8: byte 0x00")


@pytest.mark.parametrize(
    "charset", ["latin-1", "ISO-8859-1", '"utf-16"', "us-ascii", "unheard-of", "", "x; charset*=utf-8''utf-8"]
)
async def test_another_charset_than_utf_8_is_refused(client: httpx2.AsyncClient, charset: str) -> None:
    """Whatever the bytes: JSON is UTF-8 (RFC 8259, section 8.1)."""
    found = await post(client, "/predict", PREDICT.encode(), f"{JSON}; version=1; Charset={charset}")
    assert found[:2] == (415, "unsupported-media-type")


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"Utf-8"', "utf8"])
async def test_utf_8_may_be_named(client: httpx2.AsyncClient, charset: str) -> None:
    assert (await post(client, "/predict", PREDICT.encode(), f"Application/JSON ; Charset={charset}"))[0] == 404


@pytest.mark.parametrize(
    "parameters", [';a="' * 15_000, '"' + ";" * 60_000, "; v=1" * 60], ids=["quotes", "open", "many"]
)
async def test_a_long_content_type_is_refused_unparsed(client: httpx2.AsyncClient, parameters: str) -> None:
    """Python takes quadratic time, which would block the worker."""
    found = await post(client, "/predict", PREDICT.encode(), f"{JSON}; {parameters}")
    assert found[:2] == (415, "unsupported-media-type")


HALVES = (r"\ud800", r"\uDFFFx", r"\ud83d\u0041", r"\\\udc00\ud800")
PAIRS = ("", r"\\ud800", r"\ud83d\ude00", r"\uD83D\uDE00\\\\udead", r"\u00e9\n", "\\\\")
MARK = "@@"


def bodies(method: str, path: str) -> list[Any]:
    """Return bodies of an operation, valid or not."""
    own = {"labels": {"add": ["a"]}, "policies": {"a": {"b": 1.0}}} if method == "PATCH" else BODIES[path]("m")
    rich = {"model": "m", "context": {"a": 1.0, "b": "x"}, "actions": [{"id": "a", "features": {"x": "y"}}]}
    return [own, rich, [], MARK]


def marked(value: Any) -> Iterator[Any]:
    match value:
        case str():
            yield value + MARK
        case dict():
            yield value | {MARK: 1}
            for name, each in value.items():
                yield {(name + MARK if name == other else other): rest for other, rest in value.items()}
                yield from (value | {name: changed} for changed in marked(each))
        case list():
            yield [*value, MARK]
            for i, each in enumerate(value):
                yield from ([*value[:i], changed, *value[i + 1 :]] for changed in marked(each))


OPERATIONS = [each for each in CLOSED if each[0] in ("POST", "PUT", "PATCH") and not each[1].endswith("/import")]


@pytest.fixture(scope="module")
def ready(store_url: str) -> Iterator[Running]:
    with running(store_url, Clock(START), webhook_secrets=SECRET) as one:
        one.send("DELETE", "/models/m")
        assert one.post("/models", definition("m")).status_code == 201
        yield one


def check(response: httpx2.Response) -> None:
    assert response.status_code == 400, response.text
    if is_ofrep(response.request.url.path):
        detail = failure_of(response, 400, "PARSE_ERROR")["errorDetails"]
    else:
        detail = problem_of(response, 400, "invalid-json")["detail"]
    assert "half of a surrogate pair at character" in detail


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=str)
def test_half_a_pair_anywhere_is_refused(ready: Running, method: str, path: str) -> None:
    sent, at = 0, path.format(name="m", key="m", snapshot="kept", shadow="rival")
    headers = {"content-type": "application/json"} | ({"if-match": "*"} if method == "PATCH" else {})
    for body in bodies(method, path):
        for i, each in enumerate(marked(body)):
            text = json.dumps(each).replace(MARK, HALVES[i % len(HALVES)])
            for padding in (0, LARGE):
                check(ready.send(method, at, " " * padding + text, **headers))
                sent += 1
    assert sent >= 10


def test_half_a_pair_in_a_webhook_is_refused(ready: Running) -> None:
    feedback = {"prediction_id": "m:made", "true_label": "a"}
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": feedback}
    forms: list[tuple[Any, dict[str, str]]] = [
        (feedback, {}),
        ({"type": "t", "data": feedback}, {}),
        (event, {"content-type": "application/cloudevents+json"}),
        (feedback, {"ce-id": "1", "ce-source": "s", "ce-type": "t", "ce-specversion": "1.0"}),
    ]
    for form, headers in forms:
        for each in marked(form):
            text = json.dumps(each).replace(MARK, HALVES[0])
            sent = signed(text.encode(), SECRET) | headers
            response = ready.post("/webhooks/feedback", text.encode(), **sent)
            assert response.status_code == 422, response.text
            assert "half of a surrogate pair at character" in response.json()["detail"]


@pytest.mark.parametrize("text", HALVES)
@pytest.mark.parametrize("before", PAIRS)
def test_the_position_is_that_of_python(before: str, text: str) -> None:
    whole = f'["é{before}{text}"]'
    with pytest.raises(HalfPairError) as found:
        check_pairs(whole.encode())
    rest = whole[found.value.position :]
    assert rest.lower().startswith(("\\ud", "\\udf"))
    head = json.loads(whole[: found.value.position] + '"]')[0]
    assert head.encode()


@pytest.mark.parametrize("text", PAIRS)
def test_whole_pairs_pass(text: str) -> None:
    check_pairs(f'["{text}"]'.encode())


LITTER = "litter"
MOST_BYTES = 100_000
"""Maximum bytes in cycles that a refused request may leave; each body below is larger."""
_MANY = 20_000
_UNKNOWN = {f"m{i}": 1 for i in range(200)}
WRONG: dict[str, tuple[str, Any]] = {
    "wrong numbers": ("/predict", {"model": LITTER, "context": ["x"] * _MANY}),
    "too many numbers": ("/predict", {"model": LITTER, "context": [1.5] * _MANY}),
    "a long name": ("/predict", {"model": LITTER, "context": [1, 2, 3], "x" * 200_000: 1}),
    "a small body": ("/predict", {"model": LITTER, "context": [1, 2, 3], "x" * 30_000: 1}),
    "small numbers": ("/predict", {"model": LITTER, "context": [1.5] * 6000}),
    "a missing model": ("/predict", {"model": "missing", "context": [1.5] * _MANY}),
    "a wrong type": ("/predict", [1.5] * _MANY),
    "unknown members of items": ("/predict/batch", {"model": LITTER,
        "contexts": [{f"m{i}": 1 for i in range(200)}] * 99}),
    "wrong contexts": ("/predict/batch", {"model": LITTER, "contexts": [["x"] * 200] * 100}),
    "unknown members of feedback": ("/feedback/batch", {"feedback": [_UNKNOWN] * 99}),
    "wrong labels": ("/models", {"name": "other", "labels": [1] * _MANY, "features": {"kind": "dense", "size": 3}}),
}  # fmt: skip


@pytest.fixture
def saved_garbage() -> Iterator[list[object]]:
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    gc.collect()


def size_of(objects: list[object]) -> int:
    found = {id(each): each for each in objects}
    for each in objects:
        found |= {id(other): other for other in gc.get_referents(each) if isinstance(other, (bytes, str, list, dict))}
    return sum(map(sys.getsizeof, found.values()))


async def refuse(client: httpx2.AsyncClient, path: str, body: Any) -> None:
    response = await client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert response.status_code in (200, 404, 422), response.text[:200]
    assert "urn:wager:problem:" in response.text


@pytest.mark.parametrize("case", WRONG)
async def test_a_refused_request_leaves_no_cycles(store_url: str, case: str, saved_garbage: list[object]) -> None:
    async with worker(store_url) as client:
        await client.post("/models", json=definition(LITTER))
        left = []
        for _ in range(3):
            saved_garbage.clear()
            await refuse(client, *WRONG[case])
            gc.collect()
            left.append(size_of(saved_garbage))
        await client.delete(f"/models/{LITTER}")
    assert left[2] - left[1] < MOST_BYTES


BLANKS = b" " * LARGE
"""Valid JSON whitespace, which makes any body large."""
EACH = {(r.method, r.path, r.slug): r for r in REFUSED if r.content and r.slug != "body-too-large"}
"""A refused request of each operation and type of problem."""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run a worker with the table's models on a separate store."""
    with EmbeddedServer(tmp_path_factory.mktemp("large")) as server, running(server.url) as made:
        for name in (MODEL, FULL_INFORMATION, LABEL_SET, RANKING):
            assert made.post("/models", definition(name)).status_code == 201
        yield made


def normalized(response: httpx2.Response) -> Any:
    """Return what large and small bodies have in common: not the request id, nor the position of an error."""
    problem = response.json()
    problem.pop("request_id", None)
    if response.status_code == 400:
        problem.pop("detail")
    return response.status_code, response.headers["content-type"], problem


def test_a_large_body_is_refused_like_a_small_one(one: Running) -> None:
    refused = 0
    for request in EACH.values():
        content = request.content or b""
        small, large = (
            one.send(request.method, request.path, c, **request.headers) for c in (content, BLANKS + content)
        )
        if small.status_code >= 400:  # requests that need another test's models may succeed here
            assert normalized(large) == normalized(small), request.id
            refused += 1
    assert refused > 50


def test_a_large_body_is_answered_like_a_small_one(one: Running) -> None:
    content = f'{{"model": "{MODEL}", "context": {X}, "prediction_id": "large"}}'.encode()
    small, large = (one.post("/predict", body) for body in (content, BLANKS + content))
    assert (small.status_code, large.json()) == (200, small.json())


@pytest.mark.parametrize("deep", [False, True], ids=["outside", "inside"])
def test_the_number_of_members_is_bounded(one: Running, deep: bool) -> None:
    """An object with too many members is refused immediately, because each could be an error to report."""
    many = "{" + ",".join(f'"member-{i:020}": 1' for i in range(MOST_MEMBERS + 1)) + "}"
    response = one.post("/predict", (f'{{"model": "{MODEL}", "context": {many}}}' if deep else many).encode())
    assert response.status_code == 422
    assert "1,001 members" in response.json()["detail"]
