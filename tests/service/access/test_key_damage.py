"""The laws of damaged key records: their keys are refused, all others work, and the log says what is wrong."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx2
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from service.access.key_admin import KeyAdmin
from service.errors import StoreCorruptError
from service.store import keys
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.servers import raw
from tests.service.keyed import bearer, key_admin_at, noise
from tests.service.workers import Clock, worker

Damage = Callable[[bytes], bytes]


def with_field(**fields: Any) -> Damage:
    return lambda record: json.dumps(json.loads(record) | fields).encode()


def without(field: str) -> Damage:
    return lambda record: json.dumps({key: value for key, value in json.loads(record).items() if key != field}).encode()


SECRET = "hunter2-hunter2"
DAMAGES: dict[str, Damage] = {
    "empty": lambda _: b"",
    "truncated": lambda record: record[:-10],
    "truncated in a character": lambda record: record[:20] + b"\xe2\x82",
    "random bytes": lambda record: noise(len(record) % 60),
    "a zero at the end": lambda record: record + b"\0",
    "twice": lambda record: record * 2,
    "a list": lambda record: b"[" + record + b"]",
    "null": lambda _: b"null",
    "deep": lambda _: b"[" * 100_000,
    "a pickle": lambda _: b"\x80\x04K\x01.",
    "a field of a later version": with_field(**{f"{SECRET}\n\x1b[2J": SECRET}),
    "no digest": without("digest"),
    "no scopes": without("scopes"),
    "a digest of another length": with_field(digest=SECRET),
    "a digest of another type": with_field(digest=7),
    "a scope of a later version": with_field(scopes=["read", SECRET]),
    "a glob of a later version": with_field(models=f"{SECRET}[a-z]"),
    "a limit of another kind": with_field(limit=SECRET),
    "a time as text": with_field(expires_at=SECRET),
    "a time before 1970": with_field(created_at=-1.0),
    "an endless time": lambda record: record.replace(b'"expires_at":null', b'"expires_at":NaN'),
    "a surrogate": lambda record: record.replace(b'"name":"x"', b'"name":"\\ud800"'),
}


class Site(NamedTuple):
    client: httpx2.AsyncClient
    keys: KeyAdmin
    table: ApiKeyTable


@pytest.fixture
def site(store_url: str, runner: asyncio.Runner) -> Iterator[Site]:
    store, clock = RedisStore(store_url, timeout=10.0), Clock()
    context = worker(store_url, clock=clock, auth="required", key_cache_seconds=0.0)
    table = ApiKeyTable(store.command)
    yield Site(runner.run(context.__aenter__()), key_admin_at(table, clock), table)
    runner.run(context.__aexit__(None, None, None))
    runner.run(store.close())


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_record_stops_its_key_only(
    site: Site, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = [await site.keys.create("x", ["read"]) for _ in range(2)]
    record = await site.table.get(broken.id)
    assert record is not None
    assert damage(record) != record
    assert await site.table.replace(broken.id, damage(record))
    with caplog.at_level(logging.ERROR):
        refused = await site.client.get("/learners", headers=bearer(broken))
    unknown = await site.client.get("/learners", headers=bearer(f"wk_{'0' * 12}_{'0' * 64}"))
    assert (refused.status_code, refused.json()["detail"]) == (401, unknown.json()["detail"])
    assert (await site.client.get("/learners", headers=bearer(sound))).status_code == 200
    (message,) = [each.getMessage() for each in caplog.records]
    assert broken.id in message
    assert "is unreadable, so the key is refused: " in message
    assert broken.text not in message
    assert json.loads(record)["digest"] not in message
    assert message.isprintable()
    assert len(message) < 300
    assert SECRET not in message or damage is DAMAGES["a field of a later version"]  # the name of a field
    listed = await site.keys.all()
    assert listed[broken.id] is None
    assert listed[sound.id] is not None
    with pytest.raises(StoreCorruptError, match="is unreadable; it can only be revoked"):
        await site.keys.rotate(broken.id, 60.0)
    await site.keys.revoke(broken.id)
    assert await site.table.get(broken.id) is None


async def test_keys_in_a_value_of_another_type_are_unavailable(
    site: Site, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = await site.keys.create("x", ["read"])
    with raw(store_url) as store:
        saved = store.dump(keys.API_KEYS)
        assert saved is not None
        store.set(keys.API_KEYS, "of another type")
        try:
            with caplog.at_level(logging.ERROR):
                answer = await site.client.get("/learners", headers=bearer(key))
            assert (await site.client.get("/livez")).status_code == 200
        finally:
            store.restore(keys.API_KEYS, 0, saved, replace=True)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:wager:problem:store-unavailable")
    assert "retry-after" in answer.headers
    assert any("the API keys in the store cannot be read" in each.getMessage() for each in caplog.records)
    assert key.text not in caplog.text
    assert (await site.client.get("/learners", headers=bearer(key))).status_code == 200


@pytest.mark.parametrize("counter", ["a list", "text"])
async def test_a_damaged_count_of_requests_stops_its_key_only(site: Site, store_url: str, counter: str) -> None:
    limited = await site.keys.create("x", ["read"], budgets={"requests": "5/minute"})
    other = await site.keys.create("x", ["read"])
    assert (await site.client.get("/learners", headers=bearer(limited))).status_code == 200
    with raw(store_url) as store:
        (name,) = [each for each in store.scan_iter(f"{keys.RATE_LIMITS}*", 10_000) if limited.id.encode() in each]
        store.delete(name)
        if counter == "a list":
            store.rpush(name, "1")
        else:
            store.set(name, "several")
        assert (await site.client.get("/learners", headers=bearer(limited))).status_code == 503
        assert (await site.client.get("/learners", headers=bearer(other))).status_code == 200
        store.delete(name)
    assert (await site.client.get("/learners", headers=bearer(limited))).status_code == 200


@pytest.mark.parametrize(("field", "value"), [
    ("name", "x\nfffffffffffff  admin"), ("name", "\x1b[2J\x1b]0;x\x07"), ("expires_at", 1e300),
    ("expires_at", 1e12),
], ids=["a line", "controls", "no date", "a date too late"])  # fmt: skip
async def test_the_list_of_keys_is_plain(
    site: Site, store_url: str, field: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAGER_STORE_URL", store_url)
    key = await site.keys.create("x", ["read"])
    record = await site.table.get(key.id)
    assert record is not None
    await site.table.replace(key.id, with_field(**{field: value})(record))
    await site.table.add("\x1b[2J\n" + key.id, b"?")
    result = await asyncio.to_thread(CliRunner().invoke, app, ["keys", "list"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 1 + len(await site.keys.all())
    await site.table.remove("\x1b[2J\n" + key.id)
    await site.keys.revoke(key.id)
