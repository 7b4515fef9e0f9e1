"""The laws of erasure: what retention or a deletion removes is in no key of the store, nor in its rewritten files.

The search reads every byte of every key: its name, its dump, which has the bytes of trimmed entries too, and its
content. The service compresses nothing, and the embedded store neither.
"""

import asyncio
import itertools
import json
import re
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.background.due_models import expiry, retention
from service.background.erasure import Erasure
from service.background.shadow_folds import shadow_folds
from service.rounds.sessions import SessionCache
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from tests.servers import dump, raw, wait_until
from tests.service.actions.catalogue import NAMED, item
from tests.service.api.test_webhooks import SECRET, signed
from tests.service.evaluations import FLAGS
from tests.service.rounds.sessions import LARGE, environment
from tests.service.sample_models import LABELS
from tests.service.workers import Clock, worker

pytestmark = pytest.mark.usefixtures("no_background")

RETAIN, WINDOW = 600.0, 60.0
LONGEST = WINDOW + 7 * 86_400.0
"""Seconds for which an open prediction of a model that closes predictions may be kept."""

PRECISIONS = ("f64", "f32")
NUMBER = 0.123456789012345
ROUNDS = {"f64": struct.pack("<d", NUMBER), "f32": struct.pack("<f", NUMBER)} | {
    mark: mark.encode() for mark in ("mark-name", "mark-value", "mark-action", "mark-id", "mark-imported", "mark-flag")
}
"""What is in a context, an action or an id of a round: its bytes in the store, by the name of the marker."""

OPEN = {mark: mark.encode() for mark in ("mark-open", "mark-waiting")}
LASTING = {mark: mark.encode() for mark in ("mark-source", "mark-note")}
NEVER = {"mark-person", "mark-event"}
"""A targeting key, and what a webhook has beside its feedback."""

SEARCHED: Mapping[str, bytes] = ROUNDS | OPEN | LASTING

MODELS: Mapping[str, Mapping[str, Any]] = {
    "named": {"features": NAMED},
    "waits": {"features": NAMED, "on_expiry": "incorrect"},
    "f64": {"features": {"kind": "dense", "size": 1}},
    "f32": {"features": {"kind": "dense", "size": 1, "precision": "float32"}},
    "acts": {"features": NAMED, "actions": {"features": NAMED, "log_actions": "all"}, "labels": None},
}


def places(url: str) -> dict[str, set[str]]:
    """Return the keys of a store in which each marker is."""
    with raw(url) as store:
        stored = {
            key: key.encode() + (store.dump(key) or b"") + _bytes_of(content) for key, content in dump(url).items()
        }
    every = {**SEARCHED, **{mark: mark.encode() for mark in NEVER}}
    return {name: {key for key, content in stored.items() if mark in content} for name, mark in every.items()}


def _bytes_of(content: Any) -> bytes:
    """Join the values of a dump, which are in hexadecimal digits unless they are names."""
    match content:
        case str():
            even = len(content) % 2 == 0 and set(content) <= set("0123456789abcdef")
            return content.encode() + (bytes.fromhex(content) if even else b"")
        case dict():
            return b"\n".join(_bytes_of(each) for each in (*content, *content.values()))
        case _:
            return b"\n".join(map(_bytes_of, content))


class Site:
    """Sends what the search looks for.

    Args:
        client: of a worker.
        clock: the worker's.
        store: of the worker.
    """

    def __init__(self, client: httpx2.AsyncClient, clock: Clock, store: RedisStore) -> None:
        self.client, self.clock, self._store = client, clock, store
        self._numbers = itertools.count()

    async def create(self) -> None:
        common = {"labels": LABELS, "retain_seconds": RETAIN, "window_seconds": WINDOW}
        for name, fields in MODELS.items():
            body = common | {"name": name} | dict(fields)
            await self.ask("POST", "/models", {field: value for field, value in body.items() if value is not None})
        await self.ask("PUT", "/models/named/shadows/rival", {"learner": "gaptron"})

    async def send(self) -> None:
        """Put each marker into rounds and open predictions."""
        context = {"mark-name": 1.0, "words": "mark-value"}
        await self.judge(await self.predict("named", context, prediction_id="named:mark-id"))
        for name in PRECISIONS:
            await self.judge(await self.predict(name, [NUMBER]))
        await self.judge(await self.predict("acts", {}, actions=[item("a", of="mark-action"), item("b", price=1.0)]))
        flag = await self.ask("POST", f"{FLAGS}/named", {"context": {"targetingKey": "mark-person", "of": "mark-flag"}})
        await self.hook(flag["metadata"]["predictionId"])
        rounds = [{"context": {"of": "mark-imported"}, "label": LABELS[0], "propensity": 0.5, "correct": True}]
        await self.ask("POST", "/models/named/rounds", {"source": "mark-source", "offset": 0, "rounds": rounds})
        made = await self.predict("named", {"of": "mark-open"})
        await self.ask("GET", f"/predictions/{made}")
        await self.predict("waits", {"of": "mark-waiting"})
        await self.ask("POST", "/models/named/snapshots", {"id": "kept", "note": "mark-note"})

    async def follow(self) -> None:
        """Give each model another round: the last one stays."""
        for name in MODELS:
            context: Any = [0.5] if name in PRECISIONS else {}
            more = {"actions": [item("a"), item("b")]} if name == "acts" else {}
            await self.judge(await self.predict(name, context, **more))

    async def predict(self, model: str, context: Any, **more: Any) -> str:
        answer = await self.ask("POST", "/predict", {"model": model, "context": context} | more)
        return str(answer["prediction_id"])

    async def judge(self, prediction: str) -> None:
        await self.ask("POST", "/feedback", {"prediction_id": prediction, "correct": True})

    async def hook(self, prediction: str) -> None:
        data = {"prediction_id": prediction, "correct": True, "mark-event": "mark-event"}
        content = json.dumps({"type": "click", "data": data}).encode()
        headers = {"content-type": "application/json"} | signed(content, at=int(self.clock.now))
        response = await self.client.post("/webhooks/feedback", content=content, headers=headers)
        assert response.json()["status"] == "recorded", response.text

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        response = await self.client.request(method, path, json=body)
        assert response.is_success, response.text
        return response.json() if response.content else None

    async def work(self) -> None:
        """Do what is due in the background, as another worker does."""
        own = environment(self._store, self.clock, store_offset=lambda: self.clock.now - time.time())
        sessions = SessionCache(own, LARGE)
        for each in (expiry(own, sessions), shadow_folds(own), retention(own, sessions), Erasure(own)):
            await each.run()

    async def forget(self) -> None:
        """Let the rounds become too old, and trim them."""
        self.clock.now += RETAIN + 1.0
        await self.follow()
        for _ in range(2):  # within two minutes
            await self.work()
            self.clock.now += 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path) as running:
        yield running


@pytest.fixture
def site(server: EmbeddedServer, runner: asyncio.Runner) -> Iterator[Site]:
    clock, store = Clock(time.time()), RedisStore(server.url, 5.0)
    context = worker(server.url, clock, webhook_secrets=SECRET)
    made = Site(runner.run(context.__aenter__()), clock, store)
    runner.run(made.create())
    yield made
    runner.run(context.__aexit__(None, None, None))
    runner.run(store.close())


def expire(url: str) -> float:
    """Remove the keys that expire, as time does; return the longest of the times that they had left."""
    with raw(url) as store:
        left: dict[bytes, Any] = {key: store.ttl(key) for key in store.scan_iter("*")}
        expiring = {key: seconds for key, seconds in left.items() if seconds >= 0}
        for key in expiring:
            store.unlink(key)
    return max(expiring.values(), default=0)


def of_model(url: str, marks: Iterable[str]) -> set[str]:
    """Return the kinds of keys that have one of these markers: the end of a name, or `p` for a block."""
    found = places(url)
    return {re.sub(r".*:p:.*", "p", key).rpartition(":")[2] for mark in marks for key in found[mark]}


async def test_retention_erases_every_round(server: EmbeddedServer, site: Site) -> None:
    """A round goes with all that was sent for it. The name of a source, and a note, stay as long as the model."""
    await site.send()
    before = places(server.url)
    assert {mark for mark, found in before.items() if not found} == NEVER
    assert {mark for mark in ROUNDS if not any(key.endswith(":log") for key in before[mark])} == set()
    assert of_model(server.url, OPEN) == {"p"}
    for _ in range(2):  # what expired has become a round of that moment
        await site.forget()
    assert of_model(server.url, [*ROUNDS, *OPEN]) == {"p"}
    assert of_model(server.url, LASTING) == {"imports", "kept"}
    assert expire(server.url) <= LONGEST
    assert {mark for mark, found in places(server.url).items() if found} == set(LASTING)


async def test_a_deletion_erases_everything(server: EmbeddedServer, site: Site) -> None:
    """The predictions of a deleted model can no longer be read, and go when a worker has searched for them."""
    await site.send()
    for name in MODELS:
        await site.ask("DELETE", f"/models/{name}")
    assert of_model(server.url, SEARCHED) == {"p"}
    site.clock.now += 60.0  # past the time of the deletions, which the store's clock shows
    await site.work()
    assert [mark for mark, found in places(server.url).items() if found] == []
    with raw(server.url) as store:
        assert list(store.scan_iter("*{*")) == []


async def test_a_rewrite_erases_from_the_files(server: EmbeddedServer, site: Site) -> None:
    """What is deleted in the store stays in its append-only file until the store rewrites that file."""
    await site.send()
    for _ in range(2):
        await site.forget()
    expire(server.url)
    assert in_files(server.data_dir) == set(SEARCHED)
    with raw(server.url) as store:
        by_itself = {"auto-aof-rewrite-percentage": "100", "auto-aof-rewrite-min-size": str(2**26)}
        assert store.config_get(*by_itself) == by_itself
        store.bgrewriteaof()
    await asyncio.to_thread(wait_until, lambda: in_files(server.data_dir) == set(LASTING))
    for name in MODELS:
        await site.ask("DELETE", f"/models/{name}")
    with raw(server.url) as store:
        store.bgrewriteaof()
    await asyncio.to_thread(wait_until, lambda: in_files(server.data_dir) == set())


def in_files(folder: Path) -> set[str]:
    """Return the markers that are in a file of a data directory."""
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return {name for name, mark in SEARCHED.items() if any(mark in content for content in contents)}
