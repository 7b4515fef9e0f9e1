"""The law of JSON routes: they answer like FastAPI's own routes."""

import json
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, FastAPI

from service.api.responses import problems
from service.api.responses.bodies import CLIENT_GONE
from service.api.responses.routes import JsonRoute
from service.compute import Compute
from service.schemas.rounds import FeedbackRequest, PredictRequest

JSON = "application/json"

NUMBERS = [
    *("1", "1.0", "-0.0", "1E5", "4.9e-324", "9007199254740993", "9223372036854775808", "123456789012345678901.5"),
    *("1e400", "NaN", "-Infinity", "01", "1.", ".5", "9" * 400, "9" * 5000, "true", "null", '"1"', "[1]", "{}"),
]
PREDICTIONS = [
    *(f'{{"model":"m","context":[0.5,{number}]}}' for number in NUMBERS),
    *(f'{{"model":"m","context":{number}}}' for number in NUMBERS),
    *(f'{{"model":"m","context":{{"indices":[{number}],"values":[{number}]}}}}' for number in NUMBERS),
    *(f'{{"model":"m","context":[1],"include_distribution":{number}}}' for number in NUMBERS),
    '{"model":"m","model":"n","context":[1],"context":[2]}',
    '{"model":"!","context":[1],"model":"m"}',
    '{"model":"m","context":[1],"model":"!"}',
    '{"model":"m","context":[1],"more":1}',
    *('{"model":"m","context":[1]} ', '{"model":"m","context":[1]}x', '{"model":"m","context":[1],}', "[]", "", "{"),
]
FEEDBACK = [
    *(f'{{"prediction_id":"m:1","correct":{number}}}' for number in NUMBERS),
    *(f'{{"prediction_id":"m:1","true_labels":["a",{number}]}}' for number in NUMBERS),
    *(f'{{"prediction_id":"m:1","true_label":"{label}"}}' for label in ("\\u0000", "\t", "é", "")),
]
TYPES: list[tuple[str, ...]] = [
    *((), ("",), (JSON,), ("application/json; charset=utf-8",), ("Application/JSON",), ("application/ld+json",)),
    *(("text/plain",), ("text/plain", JSON), (JSON, "text/plain")),
]

WITH_PARAMETERS = [
    "application/json; charset*=utf-8''utf-8",
    *("application/json; charset=utf-8", "application/json;charset=UTF-8", 'Application/JSON ; Charset="Utf-8"'),
    *("application/json; charset=utf8", 'application/json; profile="a; charset=latin-1"', "application/ld+json; v=1"),
]


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """Return an application with the same functions under /json and /plain."""
    app = FastAPI()
    app.state.compute = Compute(2)
    problems.install(app)
    for prefix, route_class in (("/json", JsonRoute), ("/plain", None)):
        routes = APIRouter() if route_class is None else APIRouter(route_class=route_class)

        @routes.post("/predict", response_model=None)
        async def predict(request: PredictRequest) -> dict[str, Any]:
            numbers = request.context if isinstance(request.context, list) else repr(request.context)
            return {"model": request.model, "context": numbers, "listed": request.include_distribution}

        @routes.post("/feedback", response_model=None)
        async def feedback(request: FeedbackRequest) -> dict[str, Any]:
            truth = [request.true_label, request.true_labels]
            return {"id": str(request.prediction_id), "bit": request.correct, "reward": request.reward, "truth": truth}

        app.include_router(routes, prefix=prefix)
    return app


async def _post(app: FastAPI, path: str, body: bytes, types: tuple[str, ...] = (JSON,)) -> httpx2.Response:
    headers = [("Content-Type", value) for value in types]
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
        return await client.post(path, content=body, headers=headers)


async def _answers(
    app: FastAPI, path: str, body: bytes, types: tuple[str, ...] = (JSON,)
) -> list[tuple[int, str, Any]]:
    answers = [await _post(app, way + path, body, types) for way in ("/json", "/plain")]
    return [(answer.status_code, answer.headers["content-type"], answer.json()) for answer in answers]


@pytest.mark.parametrize(
    ("path", "body"), [("/predict", b) for b in PREDICTIONS] + [("/feedback", b) for b in FEEDBACK]
)
async def test_both_routes_answer_a_body_alike(app: FastAPI, path: str, body: str) -> None:
    """Both routes give the same answer to a body, valid or not."""
    direct, plain = await _answers(app, path, body.encode())
    assert direct == plain


@pytest.mark.parametrize("types", TYPES, ids=repr)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
async def test_both_routes_answer_a_content_type_alike(app: FastAPI, types: tuple[str, ...], encoding: str) -> None:
    """Both routes give the same answer for any content type and encoding."""
    body = '{"prediction_id":"m:1","true_label":"é"}'.encode(encoding)
    direct, plain = await _answers(app, "/feedback", body, types)
    assert direct == plain


@pytest.mark.parametrize("label", ["é", "é" * 40_000], ids=["small", "large"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1", "surrogates"])
async def test_only_utf_8_is_read(app: FastAPI, encoding: str, label: str) -> None:
    """A body in another encoding gets 400, though Python's parser would read most of them."""
    text = json.dumps({"prediction_id": "m:1", "true_label": label + "\ud800" * (encoding == "surrogates")})
    text = text.replace("\\u00e9", "é").replace("\\ud800", "\ud800")
    body = text.encode("utf-8", "surrogatepass") if encoding == "surrogates" else text.encode(encoding)
    answer = await _post(app, "/json/feedback", body, (JSON,))
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:wager:problem:invalid-json")
    assert answer.json()["detail"].startswith("the body is not JSON: it is not UTF-8: byte 0x")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
async def test_null_bytes_are_not_utf_8(app: FastAPI, encoding: str) -> None:
    """ASCII text in UTF-16 or UTF-32 is decodable UTF-8, but has null bytes, which JSON never has."""
    answer = await _post(app, "/json/predict", '{"model":"m","context":[1]}'.encode(encoding), (JSON,))
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("the body is not JSON: it is not UTF-8: byte 0x00")


@pytest.mark.parametrize("content_type", [JSON, *WITH_PARAMETERS])
async def test_no_parameter_of_the_content_type_leaves_the_fast_path(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, content_type: str
) -> None:
    """With any parameter, a JSON route avoids FastAPI's general handling, which calls `json.loads`."""

    def refuse(*_: object) -> None:
        raise AssertionError("parsed by FastAPI")

    monkeypatch.setattr(json, "loads", refuse)
    answer = await _post(app, "/json/predict", b'{"model":"m","context":[1]}', (content_type,))
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "charset", ["latin-1", "ISO-8859-1", '"utf-16"', "us-ascii", "unheard-of", "", "x; charset*=utf-8''utf-8"]
)
async def test_another_charset_than_utf_8_is_refused(app: FastAPI, charset: str) -> None:
    """A charset other than UTF-8 gets 415, whatever the bytes: JSON is UTF-8 (RFC 8259, section 8.1)."""
    types = (f"{JSON}; version=1; Charset={charset}",)
    answer = await _post(app, "/json/predict", b'{"model":"m","context":[1]}', types)
    assert (answer.status_code, answer.json()["type"]) == (415, "urn:wager:problem:unsupported-media-type")


@pytest.mark.parametrize(
    "parameters", [';a="' * 15_000, '"' + ";" * 60_000, "; v=1" * 60], ids=["quotes", "open", "many"]
)
async def test_a_long_content_type_is_refused_unparsed(app: FastAPI, parameters: str) -> None:
    """A long content type gets 415 unparsed: Python takes quadratic time, which would block the worker."""
    answer = await _post(app, "/json/predict", b'{"model":"m","context":[1]}', (f"{JSON}; {parameters}",))
    assert (answer.status_code, answer.json()["type"]) == (415, "urn:wager:problem:unsupported-media-type")


async def test_a_body_cut_off_is_no_request(app: FastAPI) -> None:
    """A body that a disconnect cuts off counts as a client that left."""
    sent: list[int] = []
    head = {"type": "http", "method": "POST", "path": "/json/predict", "query_string": b"", "root_path": ""}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            assert isinstance(message["status"], int)
            sent.append(message["status"])

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    await app({**head, "headers": [(b"content-type", b"application/json")]}, receive, send)  # type: ignore[arg-type]
    assert sent == [CLIENT_GONE]


def test_a_function_with_a_second_parameter_is_refused() -> None:
    """A function with a second parameter is refused, because the route would not pass it."""
    routes = APIRouter(route_class=JsonRoute)
    with pytest.raises(TypeError, match="/feedback must take the body, path parameters, and nothing else"):

        @routes.post("/feedback")
        async def feedback(request: FeedbackRequest, more: int) -> FeedbackRequest:
            del more
            return request
