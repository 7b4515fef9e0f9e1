"""The HTTP contract of every path: methods, query parameters, problems, links, the log, health and /docs."""

import asyncio
import contextlib
import hashlib
import inspect
import json
import re
from datetime import datetime
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from learners.registry import ALL_LEARNERS
from service import errors
from service.api.responses import problem_types, problems
from service.api.responses.evaluation_failures import is_ofrep
from service.api.routes import pages
from service.app import create_app
from service.schemas.problems import Problem
from service.settings import Settings
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.api_description import api_description
from tests.service.evaluations import failure_of
from tests.service.pipelines import layers
from tests.service.sample_models import definition, some_contexts
from tests.service.threads import in_thread
from tests.service.workers import START, worker


async def test_the_log_is_read_a_page_at_a_time(api: Api) -> None:
    await api.create()
    answers = [body_of(await api.predict(x), 200) for x in some_contexts(1, 7)]
    for answer in reversed(answers):
        await api.judge(answer["prediction_id"], correct=True)
    lines = [line for after in (0, 3, 6, 7) for line in await api.rounds(after=after, limit=3)]
    assert [line["round"] for line in lines] == list(range(1, 8))
    assert [line["prediction_id"] for line in lines] == [a["prediction_id"] for a in reversed(answers)]


async def test_a_line_of_the_log_matches_the_answer(api: Api) -> None:
    await api.create()
    answer = body_of(await api.predict([3.0, 4.0, 0.0]), 200)
    await api.judge(answer["prediction_id"], correct=False)
    (line,) = await api.rounds()
    assert line.pop("context") == [3.0, 4.0, 0.0]
    assert [datetime.fromisoformat(line.pop(f"{at}_at")).timestamp() for at in ("predicted", "feedback")] == [START] * 2
    same = {key: answer[key] for key in ("prediction_id", "label", "propensity", "rounds_seen")}
    named = ("true_label", "labels", "true_labels", "actions", "action_count", "eligible")
    none = dict.fromkeys((*named, "cost", "cost_weight", "costs"))
    outcome = {"outcome": "feedback", "correct": False, "abstained": False, "reward": 0.0}
    assert line == {"round": 1, "holdout": False, "changes": 0, "changes_seen": 0} | none | outcome | same


async def test_learners_are_described(api: Api) -> None:
    learners = body_of(await api.get("/learners"), 200)["learners"]
    assert [learner["algorithm"] for learner in learners] == sorted(ALL_LEARNERS)
    kinds = {learner["algorithm"].removeprefix("fenchel-young-"): learner["answer"] for learner in learners}
    assert [kinds[kind] for kind in ("ordinal", "multilabel", "ranking")] == ["level", "label-set", "ranking"]
    assert kinds["soba"] == "label"
    for learner in learners:
        assert learner["summary"]
        assert learner["guarantee"]
        assert "problem" not in learner["hyperparameters"]["properties"]
        assert all("default" in each for each in learner["hyperparameters"]["properties"].values())


async def test_health_is_reported(api: Api) -> None:
    assert body_of(await api.get("/livez"), 200) == {"status": "alive"}
    ready = body_of(await api.get("/readyz"), 200)
    assert ready["status"] == "ready"
    assert ready["store"].startswith(("Valkey", "Redis"))
    assert "survives a crash" in ready["durability"]
    assert [warning for warning in ready["warnings"] if "wager repair" not in warning] == []  # damage from other tests


async def test_unknown_paths_and_methods_are_problems(api: Api) -> None:
    problem_of(await api.get("/nothing"), 404, "no-such-path")
    response = await api.get("/predict")
    problem_of(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "POST"


_API: dict[str, Any] = api_description()
DOCUMENTED = {path: {method.upper() for method in item} for path, item in _API["paths"].items()}
PATHS = (
    DOCUMENTED
    | {f"/v1{path}": methods for path, methods in DOCUMENTED.items()}
    | {"/docs": {"GET"}, "/docs/docs.js": {"GET"}, "/openapi.json": {"GET"}}
)
PARTS = {"name": "nobody", "key": "nobody", "snapshot": "kept", "shadow": "rival", "prediction_id": "nobody:made"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")


async def test_other_methods_are_refused_with_the_allowed_ones(client: httpx2.AsyncClient) -> None:
    for path, documented in PATHS.items():
        own = documented | ({"HEAD"} if "GET" in documented else set())
        for method in METHODS:
            response = await client.request(method, path.format(**PARTS))
            assert (response.status_code == 405) == (method not in own), (method, path)
            if response.status_code == 405:
                assert set(response.headers["allow"].split(", ")) == own, path
                if is_ofrep(path):
                    assert method == "HEAD" or failure_of(response, 405, "GENERAL")
                else:
                    assert method == "HEAD" or response.json()["type"] == "urn:wager:problem:method-not-allowed"


def test_operations_of_other_methods_read_a_body() -> None:
    for path, item in _API["paths"].items():
        for method, operation in item.items():
            own = operation.get("requestBody", {}).get("required", False)
            assert own == (method not in ("get", "delete")), (method, path)


async def test_head_is_answered_like_get_without_a_body(store_url: str) -> None:
    own = {"date", "x-request-id"}
    one = httpx2.Limits(max_connections=1)
    async with contextlib.AsyncExitStack() as stack:
        served = stack.enter_context(in_thread(store_url))
        client = await stack.enter_async_context(httpx2.AsyncClient(base_url=served.url, limits=one))
        for path in ("/livez", "/readyz", "/", "/models", "/openapi.json", "/nothing", "/predict"):
            pair = [await client.request(method, path) for method in ("HEAD", "GET")]
            heads = [{name: value for name, value in each.headers.items() if name not in own} for each in pair]
            assert (pair[0].status_code, heads[0]) == (pair[1].status_code, heads[1]), path
            assert not pair[0].content


@pytest.mark.parametrize("auth", ["off", "required"])
async def test_no_answer_redirects(store_url: str, auth: str) -> None:
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
    async with worker(store_url, auth=auth, allowed_hosts="evil.example") as client:
        for path in (*PATHS, "/", "/v1", "/nothing", "/docs/nothing"):
            for end in ("", "/", "//", "?x=/"):
                for method in ("GET", "POST", "DELETE"):
                    response = await client.request(method, path.format(**PARTS) + end, headers=headers)
                    assert not 300 <= response.status_code < 400
                    assert "location" not in response.headers
                    assert "evil.example" not in str(response.headers) + response.text


LENIENT = {"/livez", "/readyz", "/metrics"}
"""Balancers and scrapers add parameters to these."""
CALLS = [(method.upper(), path, each) for path, item in _API["paths"].items() for method, each in item.items()]
STRICT = [
    pytest.param(*each, id=f"{each[0]} {each[1]}") for each in CALLS if not (each[1] in LENIENT or is_ofrep(each[1]))
]


def query_names(operation: dict[str, Any]) -> list[str]:
    return [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]


NAMES = [
    pytest.param(method, path, name, id=f"{method} {path} {name}")
    for method, path, operation in CALLS
    for name in query_names(operation)
]


@pytest.mark.parametrize("prefix", ["", "/v1"], ids=["root", "v1"])
@pytest.mark.parametrize(("method", "path", "operation"), STRICT)
async def test_an_unknown_parameter_is_refused(
    client: httpx2.AsyncClient, prefix: str, method: str, path: str, operation: dict[str, Any]
) -> None:
    response = await client.request(method, f"{prefix}{path.format(**PARTS)}?zzz=1&yyy", json={})
    problem = problem_of(response, 400, "unknown-parameter", "zzz")
    assert [error["field"] for error in problem["errors"]] == ["zzz", "yyy"]
    for name in query_names(operation):
        assert name in problem["detail"].partition("known parameters: ")[2].split(", ")
    assert "`repeated-parameter`, `unknown-parameter`" in operation["responses"]["400"]["description"]


@pytest.mark.parametrize("path", sorted(LENIENT | {"/docs", "/docs/docs.js", "/openapi.json"}))
async def test_probes_may_add_parameters(client: httpx2.AsyncClient, path: str) -> None:
    assert (await client.get(path, params={"zzz": "1"})).status_code == 200


@pytest.mark.parametrize(("method", "path", "name"), NAMES)
async def test_a_repeated_parameter_is_refused(client: httpx2.AsyncClient, method: str, path: str, name: str) -> None:
    response = await client.request(method, f"{path.format(**PARTS)}?{name}=1&{name}=1")
    problem_of(response, 400, "repeated-parameter", name)


async def test_the_answer_to_many_unknown_parameters_is_short(client: httpx2.AsyncClient) -> None:
    response = await client.get("/models?" + "&".join(f"limi{number}" for number in range(5000)))
    assert len(problem_of(response, 400, "unknown-parameter", "limi0")["errors"]) == 20


async def test_a_refused_request_changes_nothing(client: httpx2.AsyncClient, name: str) -> None:
    await client.post("/models?dry_run=1", json=definition(name))
    assert (await client.get(f"/models/{name}")).status_code == 404
    assert (await client.post("/models", json=definition(name))).status_code == 201
    prediction = {"model": name, "context": [0.6, 0.8, 0.0], "prediction_id": "p"}
    await client.post("/predict?x=1", json=prediction)
    feedback = {"prediction_id": f"{name}:p", "correct": True}
    problem_of(await client.post("/feedback", json=feedback), 404, "prediction-not-found", "prediction_id")
    assert (await client.post("/predict", json=prediction)).status_code == 200
    await client.post("/feedback?x=1", json=feedback)
    await client.delete(f"/models/{name}?x=1")
    assert body_of(await client.get(f"/models/{name}"), 200)["rounds_seen"] == 0


_CLASSES = dict(inspect.getmembers(errors, inspect.isclass))
ERRORS = [cls for _, cls in sorted(_CLASSES.items()) if issubclass(cls, errors.WagerError)]
LEAVES = [cls for cls in ERRORS if not cls.__subclasses__()]


@pytest.mark.parametrize("error", LEAVES, ids=lambda cls: str(cls.__name__))
def test_every_error_has_its_problem_type(error: type[errors.WagerError]) -> None:
    problem = problems.problem_of(error("what happened", "context.3"))
    assert (problem.detail, problem.field) == ("context.3: what happened", "context.3")
    assert problem.type.startswith(problems.TYPE_PREFIX)
    others = [problems.problem_of(other("")).type for other in LEAVES if other is not error]
    assert problem.type not in others


def test_kinds_are_distinct_and_well_formed() -> None:
    every = problem_types.every_kind()
    assert len({kind.slug for kind in every}) == len(every)
    for kind in every:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.slug)
        assert 400 <= kind.status < 600
        assert kind.status != 410  # a webhook sender takes it as a request to stop forever
        assert kind.title


async def test_an_unexpected_error_reveals_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI(middleware=layers())
    problems.install(app)

    @app.get("/")
    async def broken() -> None:
        raise KeyError("redis://user:secret@host")

    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get("/")
    assert response.headers["content-type"] == problems.MEDIA_TYPE
    assert Problem.model_validate(response.json()).type == f"{problems.TYPE_PREFIX}internal-error"
    assert response.status_code == 500
    assert response.headers["connection"] == "close"  # so that no client sends its next request on a closed connection
    assert "secret" not in response.text
    assert "secret" in caplog.text
    assert [each.message for each in caplog.records if each.exc_info] == ["unexpected error"]


HOT = ["/predict", "/v1/predict/batch", "/feedback", "/feedback/batch", "/activate", "/models", "/livez", "/docs"]
SENT = [b"{", b"{}", b'{"model":"none","context":[1]}', b'{"prediction_id":"none:1","correct":true}']


class Marked:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-marked", b"yes")]
            await send(message)

        await self._app(scope, receive, marked)


@pytest.mark.parametrize("tracing", [False, True])
async def test_added_middleware_surrounds_every_route(tracing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if tracing:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    app = create_app(Settings(store_url="unix:///nowhere/valkey.sock", host="127.0.0.1"))
    app.add_middleware(Marked)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        for path in [*HOT, "/nothing"]:
            for body in SENT:
                answer = await client.post(path, content=body, headers={"content-type": "application/json"})
                assert answer.headers["x-marked"] == "yes", path
                assert answer.headers["x-request-id"], path


APP = create_app(Settings(store_url="unix:///nowhere/valkey.sock"))
_VENDORED = pages.STATIC / "swagger-ui"
_LOADED = re.compile(r'(?:src|href)="([^"]*)"')


def get(app: FastAPI, path: str) -> httpx2.Response:
    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
            return await client.get(path)

    return asyncio.run(ask())


def test_the_page_names_no_foreign_host() -> None:
    page = get(APP, "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "//" not in page.text
    assert "://" not in get(APP, "/docs/docs.js").text
    sources = set(
        re.findall(r"(?:default|script|style|img|connect)-src ([^;]*)", page.headers["content-security-policy"])
    )
    assert {word for source in sources for word in source.split()} == {"'none'", "'self'", "'unsafe-inline'", "data:"}


def test_everything_the_page_loads_is_served() -> None:
    loaded = _LOADED.findall(get(APP, "/docs").text)
    assert {address.removeprefix("docs/") for address in loaded} == {*pages.DOCS_FILES, "openapi.json"}
    types = {address: get(APP, f"/{address}").headers["content-type"].partition(";")[0] for address in loaded}
    assert types == {
        "docs/swagger-ui.css": "text/css",
        "docs/favicon-32x32.png": "image/png",
        "openapi.json": "application/json",
        "docs/swagger-ui-bundle.js": "text/javascript",
        "docs/docs.js": "text/javascript",
    }
    assert 'url: "openapi.json"' in get(APP, "/docs/docs.js").text


@pytest.mark.parametrize("name", ["docs.html", "LICENSE", "SHA256SUMS", "..%2fdocs.py", "%2e%2e/docs.py"])
def test_other_files_are_not_served(name: str) -> None:
    answer = get(APP, f"/docs/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == problems.MEDIA_TYPE


def test_swagger_ui_is_the_published_version() -> None:
    lines = (_VENDORED / "SHA256SUMS").read_text().splitlines()
    noted = {name: digest for digest, name in (line.split("  ") for line in lines if not line.startswith("#"))}
    files = [path for path in _VENDORED.iterdir() if path.name != "SHA256SUMS"]
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files} == noted
    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"} < set(noted)


BY_ID: dict[str, tuple[str, str, dict[str, Any]]] = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, item in api_description()["paths"].items()
    for method, operation in item.items()
}
LINKS = [
    (source, status, link)
    for source, (_, _, operation) in BY_ID.items()
    for status, answer in operation["responses"].items()
    for link in answer.get("links", {}).values()
]
X = [0.6, 0.8, 0.0]


def test_links_lead_from_what_an_answer_has_to_what_an_operation_takes() -> None:
    """A link names an operation, its parameters, and members of the answer or the request that it is in."""
    schemas = _API["components"]["schemas"]

    def members(content: dict[str, Any]) -> set[str]:
        found = [each["schema"].get("$ref", "").rpartition("/")[2] for each in content.get("content", {}).values()]
        return {name for each in found if each for name in schemas[each].get("properties", {})}

    for source, status, link in LINKS:
        _, _, operation = BY_ID[source]
        _, _, target = BY_ID[link["operationId"]]
        taken = {f"{each['in']}.{each['name']}" for each in target.get("parameters", [])}
        assert set(link.get("parameters", {})) <= taken
        assert set(link.get("requestBody", {})) <= members(target.get("requestBody", {}))
        known = {
            "response.body": members(operation["responses"][status]),
            "request.body": members(operation.get("requestBody", {})),
            "response.header": {"ETag", "Location"},
            "request.path": {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"},
        }
        for expression in (*link.get("parameters", {}).values(), *link.get("requestBody", {}).values()):
            where, name = re.fullmatch(r"\$(\w+\.\w+)(?:#/|\.)(\S+)", expression).groups()  # type: ignore[union-attr]
            assert name in known[where], (source, link)
    assert len(LINKS) == len({json.dumps(each) for each in LINKS}) > 30
