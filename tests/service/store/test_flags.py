"""The list of the models that bulk evaluations include: it follows each change, in any order of its steps."""

import asyncio
from collections.abc import Iterator

import pytest

from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey, StoredPolicies
from tests.service.store.calls import COPY
from tests.service.store.samples import NOW, digest_of
from tests.service.store.scenario import NONE, Scenario

BULK = StoredPolicies(bulk="1")


@pytest.fixture(autouse=True)
def _leave_no_flags(scenario: Scenario, runner: asyncio.Runner) -> Iterator[None]:
    yield
    runner.run(scenario.store.delete_model(scenario.key.name))


async def change(scenario: Scenario, at: int, policies: StoredPolicies) -> bool:
    digest = await digest_of(scenario.store, scenario.key.name)
    return await scenario.store.change_model(scenario.key, digest, f'{{"at":{at}}}', "{}", policies)


async def listed(scenario: Scenario) -> bool:
    name = scenario.key.name
    return name in await scenario.store.list_flags("", 10_000)


async def test_a_model_is_listed_while_it_is_a_bulk_flag(scenario: Scenario) -> None:
    assert not await listed(scenario)
    for at, policies in enumerate((BULK, BULK, NONE, BULK)):
        assert await change(scenario, at, policies)
        assert await listed(scenario) == (policies == BULK)
    assert not await listed(await scenario.replaced(NONE, "second"))
    assert await listed(await scenario.replaced(BULK, "third"))
    await scenario.store.delete_model(scenario.key.name)
    assert not await listed(scenario)


async def test_pages_of_the_list_are_in_name_order(scenario: Scenario) -> None:
    await change(scenario, 1, BULK)
    everything = await scenario.store.list_flags("", 10_000)
    assert everything == sorted(everything)
    at = everything.index(scenario.key.name)
    before = everything[at - 1] if at else ""
    assert await scenario.store.list_flags(before, 1) == [scenario.key.name]
    assert scenario.key.name not in await scenario.store.list_flags(scenario.key.name, 10_000)


async def test_a_refused_change_does_not_change_the_list(scenario: Scenario) -> None:
    assert await change(scenario, 1, BULK)
    assert not await scenario.store.change_model(scenario.key, b"another!", '{"at":2}', "{}", NONE)
    assert await listed(scenario)
    assert await change(scenario, 3, NONE)
    assert not await scenario.store.change_model(scenario.key, b"another!", '{"at":4}', "{}", BULK)
    assert not await listed(scenario)


async def test_a_change_that_comes_in_between_stays_listed(
    scenario: Scenario, any_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker makes the model a flag just before this one removes it from the list."""
    store, other = scenario.store, RedisStore(any_store_url, timeout=5.0)
    assert isinstance(store, RedisStore)
    plain = store._call

    async def interrupted(*words: object, **more: object) -> object:
        if words[:2] == ("ZREM", keys.FLAGS):
            monkeypatch.setattr(store, "_call", plain)
            assert await change(Scenario(other, scenario.key), 2, BULK)
        return await plain(*words, **more)  # type: ignore[arg-type]

    assert await change(scenario, 1, BULK)
    monkeypatch.setattr(store, "_call", interrupted)
    assert await change(scenario, 3, NONE)
    assert await listed(scenario)
    await other.close()


async def test_a_copy_is_listed_after_a_refused_change(scenario: Scenario) -> None:
    copy = Scenario(scenario.store, ModelKey(f"{scenario.key.name}-copy", "first"))
    assert await copy.store.create_copy(copy.key, COPY._replace(policies=BULK), NOW)
    assert await listed(copy)
    assert not await copy.store.change_model(copy.key, b"another!", '{"at":2}', "{}", NONE)
    assert await listed(copy)
    await copy.store.delete_model(copy.key.name)
    assert not await listed(copy)
