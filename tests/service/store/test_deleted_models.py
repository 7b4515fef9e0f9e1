"""The laws of what a deleted model leaves: it counts until it is erased, soon, and nothing else is erased."""

from typing import Any

import pytest

from service.background.erasure import Erasure
from service.errors import StoreUnavailableError
from service.store import keys
from service.store.capabilities import Store
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey, Version
from service.store.values import Due
from tests.servers import keys_like, raw
from tests.service.rounds.sessions import environment
from tests.service.store.samples import NEW, NOW, WINDOW
from tests.service.store.scenario import Scenario
from tests.service.store.test_open_bytes import blocks_of
from tests.service.workers import Clock

SEVERAL_PAGES = 2_500
"""Blocks that the store does not find in one page."""


@pytest.fixture
def scenario(scenario: Scenario, any_store_url: str) -> Scenario:
    """Return a new model, in a store that lists none that other tests have deleted."""
    with raw(any_store_url) as client:
        client.delete(Due.ERASURE)
    return scenario


async def erase(store: Store, later: float = 0.0) -> None:
    """Do the work of one worker, some seconds later than the store's clock shows: a deletion is due at that time."""
    await Erasure(environment(store, Clock(), store_offset=lambda: later)).run()  # type: ignore[arg-type]


async def predict(scenario: Scenario, *ids: str) -> None:
    """Store predictions that remain open."""
    await scenario.store.add_predictions(scenario.key, blocks_of(*ids), WINDOW, None)


async def left(scenario: Scenario) -> int:
    name = scenario.key.name
    return await scenario.store.sum_deleted_bytes(lambda each: each == name)


async def opened(scenario: Scenario) -> int:
    return await scenario.store.sum_open_bytes([scenario.key.name])


async def test_a_deleted_model_counts_until_it_is_erased(scenario: Scenario, any_store_url: str) -> None:
    await predict(scenario, *(f"p{i}" for i in range(SEVERAL_PAGES)))
    neighbour = Scenario(scenario.store, ModelKey(f"{scenario.key.name}-b", "first"))
    await neighbour.store.create_model(neighbour.key, "{}", NOW)
    await predict(neighbour, "open")
    bytes_ = await opened(scenario)
    assert await left(scenario) == 0
    second = await scenario.replaced()
    await predict(second, "again")
    coming = keys.coming_snapshot(scenario.key.name, "third", "digest")  # of a model that is about to be created
    with raw(any_store_url) as client:
        client.hset(coming, "000000", "part")
    assert await left(scenario) == bytes_ > 100 * SEVERAL_PAGES
    assert await opened(second) == await opened(neighbour) > 0
    await erase(scenario.store)
    assert await left(scenario) == 0
    found = keys_like(any_store_url, scenario.key.name + "}")
    assert found == sorted([keys.model(second.key.name), keys.block(*second.key, "again"), coming])
    assert [block.id for block in await second.blocks()] == ["again"]
    assert [block.id for block in await neighbour.blocks()] == ["open"]


async def test_a_model_that_is_there_is_not_erased(scenario: Scenario) -> None:
    """It is listed before its deletion, which another version of the model refuses, and the store may lose it."""
    await predict(scenario, "open")
    assert not await scenario.store.delete_model(scenario.key.name, Version(b"first", b"another!"))
    await erase(scenario.store)
    await scenario.store.erase([scenario.key], "")  # as a search does that has begun before the store lost the deletion
    assert [block.id for block in await scenario.blocks()] == ["open"]
    await scenario.store.delete_model(scenario.key.name, Version(b"first", NEW))
    assert await left(scenario) > 0
    await erase(scenario.store)  # at once, although the model was found before
    assert (await scenario.blocks(), await left(scenario)) == ([], 0)


async def test_a_search_begins_after_the_deletion(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it, predictions may still be stored where the search has been."""
    delete = scenario.store._delete  # type: ignore[attr-defined]

    async def slow(*args: Any) -> Any:
        assert scenario.key not in await scenario.store.claim_deleted(0.0, 100_000, 600.0)
        await predict(scenario, "late")
        return await delete(*args)

    monkeypatch.setattr(scenario.store, "_delete", slow)
    await predict(scenario, "open")
    await scenario.store.delete_model(scenario.key.name)
    assert await left(scenario) > 0
    await erase(scenario.store)
    assert (await scenario.blocks(), await left(scenario)) == ([], 0)


async def test_what_was_deleted_first_is_erased_first(store: RedisStore) -> None:
    """Whatever the names: many deletions do not keep others waiting."""
    names = ["b", "c", "a"]
    for name in names:
        await store.create_model(ModelKey(name, "first"), "{}", NOW)
        await store.delete_model(name)
        await store.command("ZINCRBY", Due.ERASURE, 10 * names.index(name) - 100, f"{name}:first")
    found = [key.name for key in await store.claim_deleted(0.0, 100_000, 1.0)]
    assert [name for name in found if name in names] == names


@pytest.mark.parametrize("field", ["open:99999999999999999999", "open:1e400"])
async def test_a_model_with_a_damaged_moment_is_deleted(scenario: Scenario, any_store_url: str, field: str) -> None:
    with raw(any_store_url) as client:
        client.set(keys.deleted(*scenario.key), "damaged")
        client.hset(keys.model(scenario.key.name), field, 7)
    assert await scenario.store.delete_model(scenario.key.name)
    assert await scenario.store.get_model(scenario.key.name) is None
    await erase(scenario.store)


async def test_a_model_with_a_damaged_incarnation_is_deleted(scenario: Scenario, any_store_url: str) -> None:
    with raw(any_store_url) as client:
        client.hset(keys.model(scenario.key.name), "incarnation", b"\xff:\x00")
    assert await scenario.store.delete_model(scenario.key.name)
    assert await scenario.store.get_model(scenario.key.name) is None


async def test_another_worker_ends_what_one_has_begun(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    await scenario.predict("open")
    await scenario.store.delete_model(scenario.key.name)

    async def lost(*_: object) -> None:
        raise StoreUnavailableError("lost")

    with monkeypatch.context() as patched:
        patched.setattr(scenario.store, "erase", lost)
        await erase(scenario.store)
    await erase(scenario.store, 500.0)  # the first one may still be at it
    assert len(await scenario.blocks()) == 1
    await erase(scenario.store, 601.0)
    assert await scenario.blocks() == []


async def test_a_count_expires_with_what_it_counts(scenario: Scenario, any_store_url: str) -> None:
    """Even if no worker erases anything."""
    await scenario.predict("open")
    with raw(any_store_url) as client:
        moment = client.time()[0] + 5_000
        client.hset(keys.model(scenario.key.name), mapping={f"open:{moment}": 7, f"open:{moment - 90}": 5})
        await scenario.store.delete_model(scenario.key.name)
        assert 4_990 <= client.ttl(keys.deleted(*scenario.key)) <= 5_000
    assert await left(scenario) == 12
    await scenario.replaced()
    assert await left(scenario) == 12  # a deletion that finds nothing open adds nothing


async def test_a_search_takes_a_tenth_of_the_time_of_one_worker(store: RedisStore) -> None:
    """No other worker begins the same search, however long it takes."""
    await store.command("DEL", Due.ERASURE)
    slow, clock = Scenario(store, ModelKey("slow", "first")), Clock(NOW)
    await store.create_model(slow.key, "{}", NOW)
    await predict(slow, *(f"p{i}" for i in range(SEVERAL_PAGES)))
    await store.delete_model("slow")
    rests = list[float]()

    def monotonic() -> float:
        clock.now += 150.0
        return clock.now

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        assert slow.key not in await store.claim(Due.ERASURE, clock.now - NOW, 100_000, 1.0)

    own = environment(store, clock, monotonic=monotonic, store_offset=lambda: clock.now - NOW)
    await Erasure(own, rest).run()
    assert len(rests) > SEVERAL_PAGES // 500
    assert set(rests) == {9 * 150.0}
    assert await slow.blocks() == []


async def test_a_name_without_a_model_starts_no_search(store: RedisStore) -> None:
    assert not await store.delete_model("never-created")
    assert "never-created" not in [key.name for key in await store.claim(Due.ERASURE, 0.0, 100_000, 1.0)]
