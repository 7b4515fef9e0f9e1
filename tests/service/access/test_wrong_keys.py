"""The laws of wrong API keys: an address that sends too many is throttled, and valid keys always work."""

import time
from typing import Any

import httpx2
import numpy as np
import pytest

from service.access.key_admin import IssuedKey
from service.access.keys import MOST_WRONG_KEYS, WINDOW_SECONDS, WrongKeys
from service.app import create_app
from service.compute import Compute
from service.environment import Environment
from service.settings import Settings
from service.store.access_tables import ApiKeyTable
from service.store.base import Store
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import bearer, key_admin_at
from tests.service.workers import Clock, numbered, worker

WRONG = f"wk_{'0' * 12}_{'0' * 64}"


def counted(keys: WrongKeys, address: str, n: int) -> list[int | None]:
    """Return the answers to n wrong keys from one address."""
    return [keys.count(address) for _ in range(n)]


def test_wrong_keys_over_the_limit_wait_for_the_next_window() -> None:
    """Each address has `MOST_WRONG_KEYS` per window; further ones return the seconds until the window ends."""
    clock = Clock(100.0)
    keys = WrongKeys(clock)
    assert counted(keys, "192.0.2.1", MOST_WRONG_KEYS + 2) == [None] * MOST_WRONG_KEYS + [60, 60]
    assert counted(keys, "192.0.2.2", MOST_WRONG_KEYS + 1) == [None] * MOST_WRONG_KEYS + [60]
    clock.now += WINDOW_SECONDS - 0.5
    assert keys.count("192.0.2.1") == 1
    clock.now += 0.5
    assert counted(keys, "192.0.2.1", MOST_WRONG_KEYS + 1) == [None] * MOST_WRONG_KEYS + [60]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("", "", True),
        ("/run/socket", "/run/other", False),
    ],
)
def test_addresses_of_one_network_are_one_source(one: str, other: str, same: bool) -> None:
    """An IPv6 source is its /64 network, which usually belongs to one customer."""
    keys = WrongKeys(Clock())
    assert counted(keys, one, MOST_WRONG_KEYS)[-1] is None
    assert (keys.count(other) is not None) == same


def test_the_number_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many addresses, the least recently active ones are forgotten."""
    monkeypatch.setattr("service.access.keys._MOST_CACHED", 3)
    keys = WrongKeys(Clock())
    for address in ("a", "b", "c"):
        counted(keys, address, MOST_WRONG_KEYS)
    assert keys.count("a") is not None
    keys.count("d")
    assert len(keys._windows) == 3
    assert keys.count("a") is not None
    assert keys.count("b") is None


async def test_a_throttled_address_can_use_valid_keys(store_url: str) -> None:
    """A throttled address can use valid keys, even new ones; a missing key is 401 and does not count."""
    store = RedisStore(store_url, 10.0)
    keys = key_admin_at(ApiKeyTable(store.command), time.time)
    async with worker(store_url, auth="required") as client:
        for _ in range(2 * MOST_WRONG_KEYS):
            assert (await client.get("/learners")).status_code == 401
        statuses = [(await client.get("/learners", headers=bearer(WRONG))).status_code for _ in range(25)]
        assert statuses == [401] * MOST_WRONG_KEYS + [429] * 5
        refused = await client.get("/learners", headers=bearer(WRONG))
        assert refused.json()["type"] == "urn:wager:problem:too-many-wrong-keys"
        assert 1 <= int(refused.headers["retry-after"]) <= WINDOW_SECONDS
        key = await keys.create("x", ["read"])
        for _ in range(3):
            assert (await client.get("/learners", headers=bearer(key))).status_code == 200
        assert (await client.get("/learners", headers=bearer(WRONG))).status_code == 429
        assert (await client.get("/learners")).status_code == 401
        assert (await client.get("/livez")).status_code == 200
    await store.close()


async def test_addresses_are_throttled_separately(store_url: str) -> None:
    """Each address is throttled separately, and a window ends by the worker's monotonic clock."""
    clock = Clock(0.0)

    def environment(store: Store, compute: Compute) -> Environment:
        return Environment(store, compute, Clock(), np.random.default_rng(1), numbered("wrong"), clock)

    app = create_app(Settings(store_url=store_url, auth="required"), environment)

    async def ask(address: str | None) -> int:
        client: Any = None if address is None else (address, 1)
        transport = httpx2.ASGITransport(app=app, client=client)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as caller:
            return (await caller.get("/learners", headers=bearer(IssuedKey("", WRONG)))).status_code

    async with app.router.lifespan_context(app):
        for address in ("192.0.2.1", None):
            assert [await ask(address) for _ in range(MOST_WRONG_KEYS + 1)] == [401] * MOST_WRONG_KEYS + [429]
        assert await ask("192.0.2.2") == 401
        clock.now = WINDOW_SECONDS
        assert await ask("192.0.2.1") == 401
