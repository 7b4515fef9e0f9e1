"""Requests and their answers, one for each field of the interface: `python -m tests.service.exchanges` runs them.

It prints docs/reference/exchanges.md. A test compares that page with what a worker answers.
"""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from tests.service.rounds.clicks import close_expired
from tests.service.workers import Clock, worker

_WIDTH = 100
_FRACTION = re.compile(r"\.\d+Z$")  # of a second
_WORKER = re.compile(r"^w\d+-")  # an id of the test's worker
_TELLING = ("round", "correct", "label", "propensity")
"""Fields that the page shows even if they are null."""


class Exchange(NamedTuple):
    about: str
    path: str
    body: dict[str, Any] | None = None
    method: str = "POST"
    fields: Sequence[str] = ()
    etag: str | None = None
    wait: float = 0.0  # seconds before the request, during which windows close


async def answer_of(client: httpx2.AsyncClient, exchange: Exchange) -> httpx2.Response:
    headers = {} if exchange.etag is None else {"If-Match": exchange.etag}
    return await client.request(exchange.method, exchange.path, json=exchange.body, headers=headers)


def shown(exchange: Exchange, response: httpx2.Response) -> str:
    header = "" if exchange.etag is None else f" with `If-Match: {exchange.etag}`"
    parts = [f"{exchange.about}", f"`{exchange.method} {exchange.path}`{header}"]
    if exchange.body is not None:
        parts.append(_code([exchange.body]))
    answers = sorted(map(json.loads, response.text.splitlines()), key=lambda line: line.get("prediction_id", ""))
    fields = exchange.fields if response.status_code < 300 else ()
    some = ", among other fields" if fields else ""
    parts += [f"{response.status_code}{some}:", _code([_selected(answer, fields) for answer in answers])]
    return "\n\n".join(parts)


def _selected(answer: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    selected = {name: answer[name] for name in fields} if fields else dict(answer)
    selected.pop("request_id", None)  # random
    shortened: dict[str, Any] = _shortened(selected)
    return shortened


def _shortened(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _shortened(each) for name, each in value.items() if each is not None or name in _TELLING}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    return _WORKER.sub("w0-", _FRACTION.sub("Z", value)) if isinstance(value, str) else value


def _code(objects: Sequence[Any]) -> str:
    return "\n".join(["```json", *[_lines(each) for each in objects], "```"])


def _lines(value: Any, indent: str = "") -> str:
    short = json.dumps(value, ensure_ascii=False)
    if len(indent + short) <= _WIDTH or not isinstance(value, (dict, list)) or not value:
        return short
    inner = indent + "  "
    if isinstance(value, dict):
        items = [f"{inner}{json.dumps(name)}: {_lines(each, inner)}" for name, each in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _lines(each, inner) for each in value) + f"\n{indent}]"


_INTRODUCTION = """# Requests and answers

One request and its answer for each field, in order, on an empty store. A test runs them all and compares the answers
with this page, which `python -m tests.service.exchanges` prints. It leaves out most null fields and rounds
numbers to six digits. [openapi.md](../../openapi.md) describes every field."""


def _create(about: str, name: str, **fields: Any) -> Exchange:
    return Exchange(about, "/models", {"name": name, **fields}, fields=["name", *fields])


_CHANGED = ["rounds_seen", "changes"]
_SHOES = [
    {"id": "red", "features": {"colour": "red", "price": 0.5}},
    {"id": "blue", "features": {"colour": "blue", "price": 0.7}},
]
_BOOTS = {"id": "boots", "features": {"colour": "red", "price": 1.2}}
_NEWS = ["sports", "politics", "science"]
_USER = {"user": {"age": 41, "country": "FR", "premium": True}, "tags": ["new", "mobile"]}
_NAMED = {
    "kind": "named",
    "fields": {"user.age": {"type": "number", "minimum": 0, "maximum": 120}, "user.country": {"type": "string"}},
    "interactions": [["user", "tags"]],
}


def _predict(about: str, model: str, own: str, **fields: Any) -> Exchange:
    return Exchange(about, "/predict", {"model": model, "prediction_id": own, **fields})


def _judge(about: str, id_: str, **fields: Any) -> Exchange:
    return Exchange(about, "/feedback", {"prediction_id": id_, **fields})


def _import(about: str, *rounds: dict[str, Any]) -> Exchange:
    return Exchange(about, "/models/moved/rounds", {"source": "log-of-may", "offset": 0, "rounds": list(rounds)})


def _rounds(about: str, name: str) -> Exchange:
    return Exchange(about, f"/models/{name}/rounds", method="GET")


CHAPTERS: dict[str, list[Exchange]] = {
    "Named features": [
        _create("Declared fields, and products of two namespaces:", "news", labels=_NEWS, features=_NAMED),
        _predict("A context as the client has it:", "news", "n1", context=_USER),
        _predict("A value outside its field's range:", "news", "n2", context={"user": {"age": 141}}),
        _judge("The bit:", "news:n1", correct=True),
        _rounds("The log has the context as it was sent:", "news"),
        Exchange("How the learner sees a context:", "/models/news/explain", {"context": {"user": {"age": 23}}}),
    ],
    "Eligible labels, and labels that change": [
        _predict("The distribution and the propensity are over the eligible labels:", "news", "n3", context={},
            eligible=["sports", "science"], include_distribution=True),
        Exchange("A label is added and another retired. `If-Match` has the ETag of `GET /models/news`, or `*`:",
            "/models/news", {"labels": {"add": ["culture"], "retire": ["politics"]}}, "PATCH", ["labels",
            "retired_labels", "changes"], "*"),
        _predict("A retired label is refused:", "news", "n4", context={}, eligible=["politics", "culture"]),
        Exchange("All changes, with the definition before them:", "/models/news/changes", method="GET"),
        Exchange("A change without `If-Match`:", "/models/news", {"window_seconds": 600.0}, "PATCH"),
    ],
    "Shadows": [
        Exchange("Another learner learns from the same rounds, and is compared:", "/models/news/shadows/rival",
            {"learner": "squarecb"}, "PUT", ["name", "learner", "since_round"]),
        Exchange("A learner that needs the true label of every round:", "/models/news/shadows/other",
            {"learner": "perceptron"}, "PUT"),
        Exchange("The model continues with the shadow's learner and state:", "/models/news/promote",
            {"shadow": "rival"}, fields=["changes"], etag="*"),
        Exchange("The shadow has ended:", "/models/news/shadows", method="GET"),
    ],
    "Rewards": [
        _create("The default learner accepts rewards:", "offers", labels=["10 %", "20 %"]),
        _predict("A model without features has no context:", "offers", "o1"),
        _judge("A reward between 0 and 1:", "offers:o1", reward=0.25),
        _create("A learner of bits:", "bits", labels=["a", "b"], learner="gaptron"),
        _predict("Its prediction:", "bits", "b1"),
        _judge("It refuses rewards:", "bits:b1", reward=0.25),
    ],
    "Clicks that never come": [
        Exchange("Silence is a wrong answer, so all feedback counts when the window closes:", "/models",
            {"name": "clicks", "labels": ["plain", "question"], "window_seconds": 600.0, "on_expiry": "incorrect"},
            fields=["name", "on_expiry", "learn"]),
        _predict("A prediction that may never be shown:", "clicks", "c1", activated=False),
        _judge("It takes no feedback:", "clicks:c1", correct=True),
        Exchange("It is shown:", "/activate", {"prediction_id": "clicks:c1"}),
        _judge("Now it takes feedback, whose round follows when the window closes:", "clicks:c1", correct=True),
        _predict("Another one, without feedback:", "clicks", "c2"),
        Exchange("Both are open:", "/models/clicks/predictions", method="GET"),
        _rounds("The log after the window:", "clicks")._replace(wait=700.0),
    ],
    "Rounds from elsewhere": [
        _create("A model that imports rounds:", "moved", labels=["a", "b"]),
        _import(
            "A logged round, with the probability of its label, and a labelled one, whose label the model draws:",
            {"label": "b", "propensity": 0.25, "correct": True, "at": "2026-01-02T03:04:05Z"}, {"true_label": "a"}),
        _import("A repeated request imports nothing again:", {"label": "b", "propensity": 0.25, "correct": True}),
        Exchange("The progress of each source:", "/models/moved/imports", method="GET"),
    ],
    "Actions with features": [
        _create("Features of actions in the place of labels, each multiplied with those of the context:", "shoes",
            features={"kind": "named"}, actions={"features": {"kind": "named"}}),
        _predict("Each request brings its own actions:", "shoes", "s1", context={"user": {"age": 41}},
            actions=_SHOES, include_distribution=True),
        _judge("The feedback:", "shoes:s1", correct=True),
        Exchange("How the learner sees an action:", "/models/shoes/explain", {"context": {"user": {"age": 23}},
            "actions": _SHOES[:1]}),
    ],
    "Several answers": [
        _predict("Two of the actions:", "shoes", "s2", context={"user": {"age": 23}}, actions=[*_SHOES, _BOOTS],
            top=2),
        _predict("An ordered answer; each slot is a prediction with its own feedback:", "offers", "o2", top=2),
        _judge("The feedback of the second slot:", "offers:o2:1", correct=True),
    ],
    "Snapshots, rollback and copies": [
        Exchange("Keep the state:", "/models/news/snapshots", {"id": "before", "note": "before the sale"}),
        Exchange("The kept snapshots:", "/models/news/snapshots", method="GET"),
        Exchange("Return to it:", "/models/news/rollback", {"snapshot": "before"}, "POST", _CHANGED, "*"),
        Exchange("Start again:", "/models/news/reset", {}, "POST", _CHANGED, "*"),
        Exchange("Copy the model:", "/models/news/clone", {"name": "copy"}, "POST", ["name", *_CHANGED]),
        Exchange("A snapshot that the log still needs:", "/models/news/snapshots/before", None, "DELETE"),
        Exchange("An import of another media type:", "/models/moved/import", {}),
    ],
    "Modes and holdout": [
        _create("In the mode `logging`, the client's policy answers, and the model learns from it:", "logged",
            labels=["a", "b"], mode="logging"),
        _predict("A policy with certain answers:", "logged", "l1", policy={"b": 1.0}),
        _create("In the mode `frozen`, rounds are recorded only:", "frozen", labels=["a", "b"], mode="frozen"),
        _create("A tenth of the requests gets the client's own choice, and is never learned:", "held", labels=["a",
            "b"], holdout={"fraction": 0.1, "policy": "baseline"}),
        _predict("The request has this choice:", "held", "h1", baseline="a"),
    ],
    "Evaluation": [
        Exchange("What other policies would have got, on the latest rounds; this log is too short:",
            "/models/offers/evaluation", method="GET"),
    ],
    "Batches": [
        Exchange("Items are predictions with their own fields; each gets an answer or a problem:", "/predict/batch",
            {"model": "held", "items": [{"prediction_id": "h2", "baseline": "b"}, {"prediction_id": "h3"}]}),
    ],
    "Statistics": [
        Exchange("What the rounds say; docs/reference/dashboard.md explains each number:", "/models/offers/statistics",
            method="GET", fields=["model", "rounds", "predictions", "expired", "labels_note"]),
        Exchange("All models in short, in pages. Those that need attention come first:",
            "/statistics?sort=trouble&limit=3", method="GET", fields=["next_cursor", "total", "attention"]),
        Exchange("What the API key of the request may do; here, no keys are required:", "/key", method="GET"),
    ],
}  # fmt: skip


async def page(store_url: str) -> str:
    clock, store, parts = Clock(), RedisStore(store_url, timeout=10.0), [_INTRODUCTION]
    try:
        async with worker(store_url, clock) as client:
            for title, exchanges in CHAPTERS.items():
                parts.append(f"## {title}")
                for exchange in exchanges:
                    if exchange.wait:
                        clock.now += exchange.wait
                        await close_expired(store, clock)
                    parts.append(shown(exchange, await answer_of(client, exchange)))
    finally:
        await store.close()
    return "\n\n".join(parts) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server:
        sys.stdout.write(asyncio.run(page(server.url)))


if __name__ == "__main__":
    main()
