"""The law of half surrogate pairs: JSON that escapes one is no JSON, in any place and for any reader."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import pytest

from service.api.responses.bodies import LARGE
from service.error_messages.json_text import HalfPairError, check_pairs
from tests.service.access.test_scopes import BODIES, CLOSED
from tests.service.api.test_error_wording import SECRET
from tests.service.api.test_webhooks import signed
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, worker

X = [0.6, 0.8, 0.0]
NAMED = {"kind": "named", "features": {"a": "number", "b": "category"}}
ACTIONS = [{"id": "a", "features": {"x": "y"}}]
RICH: dict[str, list[Any]] = {
    "/predict": [
        {"model": "m", "context": {"a": 1.0, "b": "x"}},
        {"model": "m", "context": {"c": "d"}, "actions": ACTIONS},
        {"model": "m", "context": X, "eligible": ["a"], "baseline": "a", "policy": {"a": 1.0}},
    ],
    "/predict/batch": [
        {"model": "m", "contexts": [{"a": 1.0, "b": "x"}]},
        {"model": "m", "items": [{"context": {"a": "b"}, "actions": ACTIONS}]},
    ],
    "/feedback": [{"prediction_id": "m:made", "true_label": "a", "true_labels": ["b"]}],
    "/feedback/batch": [{"feedback": [{"prediction_id": "m:made", "true_label": "a"}]}],
    "/models/{name}/explain": [{"context": {"a": "b"}, "actions": ACTIONS}],
    "/models/{name}/rounds": [{"source": "s", "offset": 0, "rounds": [{"context": {"a": "b"}, "true_label": "a"}]}],
}
CHANGES = [{"labels": {"add": ["a"], "retire": ["b"]}}, {"description": "a"}, {"policies": {"a": {"b": 1.0}}}]
HALVES = (r"\ud800", r"\uDFFFx", r"\ud83d\u0041", r"\\\udc00\ud800")
PAIRS = ("", r"\\ud800", r"\ud83d\ude00", r"\uD83D\uDE00\\\\udead", r"\u00e9\n", "\\\\")
MARK = "@@"


def bodies(method: str, path: str) -> list[Any]:
    """Return bodies of an operation, valid or not."""
    own = CHANGES if method == "PATCH" else [BODIES[path]("m")]
    return [*own, *RICH.get(path, []), [], MARK, {"model": "m"}]


def marked(value: Any) -> Iterator[Any]:
    """Yield the JSON value with a mark in each of its strings and names of members, one at a time, and in a new one."""
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


class Ready(NamedTuple):
    """A worker with models."""

    runner: asyncio.Runner
    client: httpx2.AsyncClient

    def send(self, method: str, path: str, body: str, **headers: str) -> httpx2.Response:
        """Send JSON to an operation."""
        at = path.format(name="m", snapshot="kept", shadow="rival")
        given = {"content-type": "application/json"} | headers | ({"if-match": "*"} if method == "PATCH" else {})
        return self.runner.run(self.client.request(method, at, content=body, headers=given))


@pytest.fixture(scope="module")
def ready(store_url: str) -> Iterator[Ready]:
    """Run a worker."""
    with asyncio.Runner() as runner:
        context = worker(store_url, Clock(START), webhook_secrets=SECRET)
        built = Ready(runner, runner.run(context.__aenter__()))
        runner.run(built.client.delete("/models/m"))
        assert runner.run(built.client.post("/models", json=definition("m"))).status_code == 201
        yield built
        runner.run(context.__aexit__(None, None, None))


def check(response: httpx2.Response) -> None:
    """Check that a response says what is wrong and where."""
    assert response.status_code == 400, response.text
    assert response.json()["type"] == "urn:wager:problem:invalid-json"
    assert "half of a surrogate pair at character" in response.json()["detail"]


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=str)
def test_half_a_pair_anywhere_is_refused(ready: Ready, method: str, path: str) -> None:
    """Every operation refuses it in any string or name of a member, in a small body and a large one."""
    sent = 0
    for body in bodies(method, path):
        for i, each in enumerate(marked(body)):
            text = json.dumps(each).replace(MARK, HALVES[i % len(HALVES)])
            for padding in (0, LARGE):
                check(ready.send(method, path, " " * padding + text))
                sent += 1
    assert sent >= 10


def test_half_a_pair_in_a_webhook_is_refused(ready: Ready) -> None:
    """A webhook is refused as well, in every form."""
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
            response = ready.send("POST", "/webhooks/feedback", text, **sent)
            assert response.status_code == 422, response.text
            assert "half of a surrogate pair at character" in response.json()["detail"]


@pytest.mark.parametrize("text", HALVES)
@pytest.mark.parametrize("before", PAIRS)
def test_the_position_is_that_of_python(before: str, text: str) -> None:
    """Escapes before it are skipped as a parser skips them, and the position counts characters."""
    whole = f'["é{before}{text}"]'
    with pytest.raises(HalfPairError) as found:
        check_pairs(whole.encode())
    rest = whole[found.value.position :]
    assert rest.lower().startswith(("\\ud", "\\udf"))
    head = json.loads(whole[: found.value.position] + '"]')[0]
    assert head.encode()


@pytest.mark.parametrize("text", PAIRS)
def test_whole_pairs_pass(text: str) -> None:
    """What every parser accepts passes."""
    check_pairs(f'["{text}"]'.encode())
