"""The laws of names with a meaning to a shell, a path, Lua or the store's protocol: valid names, or refused."""

import httpx2
import pytest
import redis

from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import definition

REFUSED = [
    "a}:model",
    "{b}",
    "a:b",
    "a b",
    "a\r\nSET x 1",
    "a\x00b",
    "../a",
    "a/../b",
    "..",
    "-",
    "a'..redis.call('FLUSHALL')..'",
    "a]] return redis.call('FLUSHALL') --[[",
    "*",
    "é",
    "a" * 65,
]
PERMITTED = ["a..", "a-_.", "0", "FLUSHALL", "nil", "a" * 64]
IDS = ["../../m", "a/b", "@all", "a=b+c~", "." * 3, "p:..", "a" * 128]
X = [0.6, 0.8, 0.0]


@pytest.mark.parametrize("hostile", REFUSED)
async def test_a_hostile_name_is_refused(client: httpx2.AsyncClient, store_url: str, hostile: str) -> None:
    """A hostile name is refused as a name or in an id, and leaves no key in the store."""
    with redis.Redis.from_url(store_url) as raw:
        before = sorted(raw.keys("*"))
        for path, body in [
            ("/models", definition(hostile)),
            ("/predict", {"model": hostile, "context": X}),
            ("/feedback", {"prediction_id": f"{hostile}:a", "correct": True}),
        ]:
            response = await client.post(path, json=body)
            assert 400 <= response.status_code < 500, (path, response.text)
        assert sorted(raw.keys("*")) == before


@pytest.mark.parametrize("name", PERMITTED)
async def test_every_permitted_name_works(client: httpx2.AsyncClient, name: str) -> None:
    """Every permitted name works, whatever it means elsewhere."""
    await client.delete(f"/models/{name}")
    assert (await client.post("/models", json=definition(name))).status_code == 201
    for own_id in IDS:
        body = {"model": name, "context": X, "prediction_id": own_id}
        made = await client.post("/predict", json=body)
        if ":" in own_id:
            assert made.status_code == 422
            continue
        assert made.json()["prediction_id"] == f"{name}:{own_id}"
        feedback = {"prediction_id": f"{name}:{own_id}", "correct": True}
        assert (await client.post("/feedback", json=feedback)).json()["status"] == "recorded"
    assert (await client.get(f"/models/{name}")).json()["rounds_seen"] == len(IDS) - 1
    assert (await client.delete(f"/models/{name}")).status_code == 204


@pytest.mark.parametrize("key_id", [*REFUSED, "", "wager:models"])
async def test_a_key_id_touches_only_its_field(store: RedisStore, store_url: str, key_id: str) -> None:
    """Any text as a key id touches only its field in the keys' hash."""
    table = ApiKeyTable(store.command)
    with redis.Redis.from_url(store_url) as raw:
        before = sorted(raw.keys("*"))
        assert not await table.replace(key_id, b"{}")
        assert not await table.remove(key_id)
        assert await table.add(key_id, b"redis.call('FLUSHALL')")
        assert await table.replace(key_id, b"' .. nil")
        assert await table.get(key_id) == b"' .. nil"
        assert await table.remove(key_id)
        assert set(raw.keys("*")) - {b"wager:api-keys"} == set(before) - {b"wager:api-keys"}
