"""The law of error texts: every refusal names its field, shows the value given, and is in our own words."""

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from service.error_messages.values import shown
from tests.service.api.test_webhooks import signed
from tests.service.bad_requests import REFUSED
from tests.service.error_messages.plain_words import check_problem
from tests.service.refused import FULL_INFORMATION, LABEL_SET, MODEL, MOST_BYTES, RANKING, Refused
from tests.service.sample_models import definition
from tests.service.workers import worker

SECRET = f"whsec_{base64.b64encode(bytes([1]) * 32).decode()}"
SHOWS_VALUE = {"wrong-type", "out-of-range", "unknown-choice", "invalid-name", "not-finite", "unknown-label"}
SPARSE, BY_NAME = "wording-sparse", "wording-named"


class Stage(NamedTuple):
    """A worker with the models of the table."""

    runner: asyncio.Runner
    client: httpx2.AsyncClient

    def send(self, method: str, path: str, content: bytes | None, **headers: str) -> httpx2.Response:
        """Send a request."""
        return self.runner.run(self.client.request(method, path, content=content, headers=headers))

    def refused(self, path: str, body: Any) -> dict[str, Any]:
        """Post a request that must be refused, check its problem against the law, and return the problem."""
        response = self.send("POST", path, json.dumps(body).encode(), **{"content-type": "application/json"})
        assert response.status_code == 422, response.text
        problem: dict[str, Any] = response.json()
        check_problem(problem)
        return problem


@pytest.fixture(scope="module")
def stage(store_url: str) -> Iterator[Stage]:
    """One worker for all requests."""
    with asyncio.Runner() as runner:
        context = worker(store_url, max_body_bytes=MOST_BYTES, webhook_secrets=SECRET)
        built = Stage(runner, runner.run(context.__aenter__()))
        learners: dict[str, dict[str, Any]] = {
            MODEL: {},
            FULL_INFORMATION: {"learner": {"algorithm": "gaptron", "information": "full"}},
            LABEL_SET: {"learner": {"algorithm": "fenchel-young-multilabel"}},
            RANKING: {"learner": {"algorithm": "fenchel-young-ranking"}},
            SPARSE: {"features": {"kind": "sparse", "size": 7}},
            BY_NAME: {"features": {"kind": "named"}},
        }
        for name, fields in learners.items():
            runner.run(built.client.post("/models", json=definition(name, **fields)))
        yield built
        runner.run(context.__aexit__(None, None, None))


def given_value(request: Refused, field: str) -> Any:
    """Return the value that a request has at the path of a field."""
    if request.content is None:
        return parse_qs(urlsplit(request.path).query)[field][0]
    value = json.loads(request.content)
    for step in field.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


@pytest.mark.parametrize("request_", REFUSED, ids=lambda request: request.id)
def test_a_refusal_names_field_and_value(stage: Stage, request_: Refused) -> None:
    """The detail begins with the field, shows the value, and has no wording of a library."""
    response = stage.send(request_.method, request_.path, request_.content, **request_.headers)
    if response.status_code < 400:
        return  # this request needs the predictions of test_bad_input
    problem = response.json()
    check_problem(problem)
    slug, field = problem["type"].removeprefix("urn:wager:problem:"), problem.get("field")
    if slug in SHOWS_VALUE and field not in {None, "name", "shadow"}:  # these are parts of the path
        value = given_value(request_, field)
        names = [f"the name {shown(name)}" for name in value] if isinstance(value, dict) else []
        assert any(f"got {text};" in problem["detail"] for text in (shown(value), *names))


OBJECTS = [each for each in REFUSED if each.content and each.content[:1] == b"{" and each.slug in SHOWS_VALUE]
FEEDBACK = [each for each in OBJECTS if each.path == "/feedback" and each.slug != "unknown-label"]


@pytest.mark.parametrize("request_", FEEDBACK, ids=lambda request: request.id)
def test_a_batch_and_a_webhook_say_the_same(stage: Stage, request_: Refused) -> None:
    """The detail of an item or a webhook is that of the single request; an item's problem has no request id."""
    assert request_.content is not None
    body, json_type = request_.content, {"content-type": "application/json"}
    single = stage.send("POST", "/feedback", body, **json_type).json()
    batch = stage.send("POST", "/feedback/batch", b'{"feedback":[' + body + b"]}", **json_type).json()["results"][0]
    webhook = stage.send("POST", "/webhooks/feedback", body, **signed(body, SECRET)).json()
    assert batch["detail"] == webhook["detail"] == single["detail"]
    assert batch["type"] == single["type"]
    assert "request_id" not in batch


NUMBERS, INDICES = (
    "send a list of 3 numbers, such as [0.5, -1, 0.25]",
    'send an object with "indices", integers from 0 to 6',
)
OF_ANOTHER_KIND: list[tuple[str, Any, str]] = [
    (MODEL, {"age": 31}, f'context: got an object with "age"; the model has dense features: {NUMBERS}'),
    (MODEL, [0.5, 0.5], f"context: got a list of 2 numbers; the model has dense features: {NUMBERS}"),
    (
        MODEL,
        {"indices": [0], "values": [1.0]},
        f'context: got an object with "indices" and "values"; the model has dense features: {NUMBERS}',
    ),
    (SPARSE, [0.5, 0.5], f"context: got [0.5, 0.5]; the model has sparse features: {INDICES}"),
    (BY_NAME, [1, 2.5, -3], "context: got [1, 2.5, -3]; the model has named features: send an object of names"),
    (BY_NAME, [1e300], "context: got [1e+300]; the model has named features: send an object of names and values"),
    (BY_NAME, None, "context: got null; must be a list of numbers for dense features, an object with "),
    (SPARSE, {"age": 31}, f'context: got an object with "age"; the model has sparse features: {INDICES}'),
    (
        SPARSE,
        {"indices": [9], "values": [1.0]},
        "context.indices: got index 9; the model's indices are integers from 0 to 6",
    ),
    (SPARSE, {"indices": [1, 2, 1], "values": [1.0] * 3}, "context.indices: got index 1 twice; indices must be unique"),
    (SPARSE, {"indices": [1, 2], "values": [1.0]}, "context.indices: got 2 indices and 1 value;"),
]


@pytest.mark.parametrize(("model", "context", "detail"), OF_ANOTHER_KIND)
def test_a_context_of_another_kind_gets_an_example(stage: Stage, model: str, context: Any, detail: str) -> None:
    """The refusal names the kind of the model's features, what was sent, and a context to send."""
    assert stage.refused("/predict", {"model": model, "context": context})["detail"].startswith(detail)
    item = stage.send(
        "POST",
        "/predict/batch",
        json.dumps({"model": model, "contexts": [context]}).encode(),
        **{"content-type": "application/json"},
    )
    assert item.json()["predictions"][0]["detail"].startswith(detail)


KINDS = '"dense", "named", "none" or "sparse"'
CREATIONS: list[tuple[dict[str, Any], str]] = [
    ({"features": {"size": 3}}, f"features.kind: missing; must be {KINDS}"),
    ({"features": {"kind": "dens", "size": 3}}, f'features.kind: got "dens"; must be {KINDS}'),
    (
        {"learner": "squarcb"},
        'learner.algorithm: got "squarcb"; did you mean "squarecb"? Known algorithms: adaboost-olm, ',
    ),
    ({"learner": {"algorithm": "squarcb"}}, 'learner.algorithm: got "squarcb"; did you mean "squarecb"? '),
    ({"learner": 3}, 'learner: got 3; must be an algorithm\'s name or an object with "algorithm"'),
    ({"learner": {}}, "learner.algorithm: missing; must be a string"),
    (
        {"learner": {"algorithm": "squarecb", "gap_scal": 8.0}},
        'learner.gap_scal: squarecb does not have this hyperparameter; did you mean "gap_scale"? Its ',
    ),
    (
        {"learner": {"algorithm": "squarecb", "gap_scale": -1}},
        "learner.gap_scale: got -1; must be a number between 0.001 and 1000000",
    ),
    ({"learner": {"algorithm": "gaptron", "horizon": 5}}, "learner: "),
    ({"windows_seconds": 3}, 'windows_seconds: unknown field; did you mean "window_seconds"? '),
]


@pytest.mark.parametrize(("changes", "detail"), CREATIONS)
def test_a_model_is_refused_with_what_is_allowed(stage: Stage, changes: dict[str, Any], detail: str) -> None:
    """The detail names the field, the value and the values allowed."""
    assert stage.refused("/models", definition("wording-new") | changes)["detail"].startswith(detail)


@pytest.mark.parametrize("algorithm", ["squarecb", "gaptron", "fenchel-young-ordinal"])
def test_a_bare_name_is_short_for_an_algorithm(stage: Stage, algorithm: str) -> None:
    """The stored model is the same as that of the long form."""
    models = []
    for number, learner in enumerate((algorithm, {"algorithm": algorithm})):
        created = stage.runner.run(
            stage.client.post("/models", json=definition(f"{algorithm}-{number}", learner=learner))
        )
        assert created.status_code == 201, created.text
        models.append(created.json() | {"name": "", "created_at": ""})
    assert models[0] == models[1]


BROKEN: list[tuple[bytes, str]] = [
    (b"", 'the body: missing; must be an object with "model"'),
    (b"{a:1}", "the body is not JSON: expected a member's name in double quotes at character 1"),
    (b'{"a" 1}', "the body is not JSON: expected a colon after the member's name at character 5"),
    (b"[1 2]", "the body is not JSON: expected a comma or the end of the list or object at character 3"),
    (b'{"a', "the body is not JSON: the string has no closing quote; it begins at character 1"),
    (b'{"a\n":1}', "the body is not JSON: a string contains an unescaped control character at character 3"),
    (b'{"a":"\\x"}', "the body is not JSON: a string contains an unknown escape at character 6"),
    (b'{"a":"\xff"}', "the body is not JSON: it is not UTF-8: byte 0xff at position 6"),
    (b"\x1f\x8b\x08\x00....", "the body is not JSON: it is compressed with gzip; send it uncompressed"),
    (b"[" * 9000, "the body is not JSON: its lists and objects are nested too deeply"),
]


@pytest.mark.parametrize(("content", "detail"), BROKEN)
def test_broken_json_is_located(stage: Stage, content: bytes, detail: str) -> None:
    """The detail says what was expected, and where."""
    problem = stage.send("POST", "/predict", content, **{"content-type": "application/json"}).json()
    check_problem(problem)
    assert problem["detail"] == detail


def test_a_path_and_a_method_are_named(stage: Stage) -> None:
    """A path without a route and a method without one are refused in our words too."""
    assert stage.send("GET", "/nothing", None).json()["detail"] == 'there is nothing at the path "/nothing"'
    assert stage.send("PUT", "/predict", None).json()["detail"] == 'got "PUT"; the path allows POST'


QUERIES = [
    ("/models?limt=5", 'limt: unknown query parameter; did you mean "limit"? Known parameters: cursor, limit'),
    ("/learners?a=1", "a: unknown query parameter; this operation has none"),
    ("/models?limit=1&limit=2", "limit: given 2 times; give it once"),
]


@pytest.mark.parametrize(("path", "detail"), QUERIES)
def test_a_query_parameter_is_explained(stage: Stage, path: str, detail: str) -> None:
    """Unknown and repeated parameters are named, with the known ones."""
    problem = stage.send("GET", path, None).json()
    check_problem(problem)
    assert problem["detail"] == detail
