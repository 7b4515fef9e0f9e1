"""The laws of budgets: each of them stops its key, and no other, and gives way when there is room again."""

import asyncio
import random
import time
from collections.abc import Awaitable, Generator
from typing import Any

import httpx2
import pytest

from service.access.key_admin import IssuedKey, KeyAdmin
from service.access.keys import Caller, Gatekeeper, KeyRecord, Names
from service.access.usage import UsageMeter
from service.api.middleware.in_flight import InFlight
from service.api.middleware.metering import metered
from service.errors import (
    ComputeSpentError,
    OpenBytesSpentError,
    OverloadedError,
    StoreUnavailableError,
    TooManyModelsError,
    UnauthenticatedError,
)
from service.store import keys
from service.store.access_tables import ApiKeyTable, UsageCounters
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Due, NameQuota
from tests.service.keyed import bearer, key_admin_at
from tests.service.metrics import scrape, value
from tests.service.sample_models import definition
from tests.service.store.calls import open_store
from tests.service.store.samples import NOW, WINDOW
from tests.service.store.test_deleted_models import erase
from tests.service.store.test_open_bytes import blocks_of
from tests.service.workers import Clock, worker

MINUTE = 60.0


@pytest.fixture
def admin(store: RedisStore) -> KeyAdmin:
    return key_admin_at(ApiKeyTable(store.command))


async def caller_of(admin: KeyAdmin, key: IssuedKey) -> Caller:
    record = (await admin.all())[key.id]
    assert isinstance(record, KeyRecord)
    return Caller(key.id, record)


class Meters:
    """Two workers' meters over one store, whose clocks the test moves."""

    def __init__(self, store: RedisStore) -> None:
        self.clock = Clock(0.0)
        self.noted: list[tuple[str, float]] = []
        self._store, self.counter = store, UsageCounters(store.command)
        self.both = [self.another(), self.another()]

    def another(self) -> UsageMeter:
        """Return the meter of another worker."""
        return UsageMeter(self._store, self.counter, self.clock, lambda *each: self.noted.append(each))

    async def run(self, caller: Caller) -> None:
        """Let a second pass in both workers."""
        await self._store.command("DEL", f"{keys.RATE_LIMITS}:open:{caller.key_id}")
        for each in self.both:
            await each.run()


# --- models


async def create(client: httpx2.AsyncClient, key: IssuedKey, name: str) -> httpx2.Response:
    return await client.post("/models", json=definition(name), headers=bearer(key))


@pytest.mark.parametrize(
    ("glob", "own", "others"),
    [
        ("team-*", ["team-a", "team-b"], ["tea-c", "team", "teamz"]),
        ("*", ["any-a", "any.b"], []),
        ("a.b-*-x", ["a.b--x", "a.b-c-x"], ["a.b-c-y", "a_b-c-x", "a.bb-x"]),
    ],
)
async def test_a_key_has_at_most_its_models(empty: str, glob: str, own: list[str], others: list[str]) -> None:
    async with open_store(empty) as store, worker(empty, auth="required", key_cache_seconds=0.0) as client:
        admin = key_admin_at(ApiKeyTable(store.command))
        everything, key = (
            await admin.create("a", ["admin"]),
            await admin.create("t", ["admin"], glob, None, {"models": 2}),
        )
        for name in others:
            assert (await create(client, everything, name)).status_code == 201
        for name in own:
            assert (await create(client, key, name)).status_code == 201
        assert (await create(client, key, own[0])).status_code == 409
        third = glob.replace("*", "third")
        clone = client.post(f"/models/{own[0]}/clone", json={"name": third}, headers=bearer(key))
        file = (await client.get(f"/models/{own[0]}/export", headers=bearer(key))).content
        octets = bearer(key) | {"Content-Type": "application/octet-stream"}
        copy = client.post(f"/models/{third}/import", content=file, headers=octets)
        for refused in (await create(client, key, third), await clone, await copy):
            problem = refused.json()
            assert (refused.status_code, problem["type"]) == (507, "urn:wager:problem:too-many-models")
            assert problem["field"] == "name"
        assert (await client.get(f"/models/{third}", headers=bearer(everything))).status_code == 404
        assert (await client.get("/key", headers=bearer(key))).json()["used"]["models"] == 2
        assert (
            value(await scrape(client, bearer(everything)), "wager_key_refusals_total", key_id=key.id, budget="models")
            == 3
        )
        await client.delete(f"/models/{own[1]}", headers=bearer(key))
        assert (await create(client, key, third)).status_code == 201


async def test_names_count_as_the_key_allows_them(store: RedisStore) -> None:
    """Whatever the pattern, the names that match it count; and many asterisks take no longer than one."""
    rng = random.Random(1)
    for _ in range(200):
        glob = "".join(rng.choice("ab.-***") for _ in range(rng.randrange(1, 7)))
        allowed, prefix = Names(glob), f"n{rng.random()}"
        names = {prefix + "".join(rng.choice("ab.-") for _ in range(rng.randrange(6))) for _ in range(8)}
        for name in names:
            await store.command("ZADD", keys.MODELS, 0, name)
        there = sum(name.removeprefix(prefix) in allowed for name in names)
        with pytest.raises(TooManyModelsError):
            await store.reserve_name("new", NameQuota(prefix + glob, prefix + allowed.prefix, there))
        await store.reserve_name("new", NameQuota(prefix + glob, prefix + allowed.prefix, there + 1))
        await store.command("ZREM", keys.MODELS, "new", *names)
    long = ["a" * n for n in range(40, 64)]
    await store.command("ZADD", keys.MODELS, *(word for name in long for word in (0, name)))
    await store.reserve_name("new", NameQuota("a*" * 20 + "b", "a", 1))
    await store.command("ZREM", keys.MODELS, "new", *long)


async def test_models_created_at_once_do_not_exceed_the_budget(store_url: str, admin: KeyAdmin) -> None:
    key = await admin.create("t", ["admin"], "t-*", None, {"models": 3})
    async with worker(store_url, auth="required") as one, worker(store_url, auth="required") as other:
        answers = await asyncio.gather(*(create((one, other)[i % 2], key, f"t-{i}") for i in range(12)))
    assert sorted(each.status_code for each in answers) == [201] * 3 + [507] * 9


# --- open predictions


async def test_open_predictions_of_all_its_models_stop_a_key(store: RedisStore, admin: KeyAdmin) -> None:
    meters, names = Meters(store), ("open-a", "open-b")
    for name in names:
        await store.create_model(ModelKey(name, "i"), "{}", NOW)
    await store.add_predictions(ModelKey("open-a", "i"), blocks_of("a"), WINDOW, None)
    one = await store.sum_open_bytes(names)
    assert one > 0
    key = await admin.create("t", ["predict"], "open-*", None, {"open_bytes": one})
    caller = await caller_of(admin, key)
    for each in meters.both:
        await each.check(caller, "predict")  # as many bytes as it may have
    await store.add_predictions(ModelKey("open-b", "i"), blocks_of("b"), WINDOW, None)
    await meters.run(caller)
    for each in [*meters.both, meters.another()]:  # a worker that does not know the key asks first
        with pytest.raises(OpenBytesSpentError):
            await each.check(caller, "predict")
        with pytest.raises(OpenBytesSpentError):  # again after the body
            each.check_open_bytes(caller)
        await each.check(caller, "feedback")  # which makes room
        await each.check(caller, "read")
    await store.command("DEL", Due.ERASURE)
    await store.delete_model("open-b")
    await store.create_model(ModelKey("open-b", "another"), "{}", NOW)
    await meters.run(caller)
    for each in [*meters.both, meters.another()]:  # a deletion alone makes no room
        with pytest.raises(OpenBytesSpentError):
            await each.check(caller, "predict")
    await erase(store)
    await meters.run(caller)
    for each in meters.both:
        await each.check(caller, "predict")
    await store.delete_model("open-b")
    await store.delete_model("open-a")


async def test_a_damaged_model_has_no_open_bytes(store: RedisStore) -> None:
    """The other models of its key remain usable."""
    await store.command("SET", keys.model("damaged"), "no hash")
    assert await store.sum_open_bytes(["damaged", "missing"]) == 0
    await store.command("DEL", keys.model("damaged"))


# --- processor time


async def test_the_processor_time_of_all_workers_holds_a_key_to_an_even_pace(
    store: RedisStore, admin: KeyAdmin
) -> None:
    """A key may be three seconds ahead, however long it was idle before."""
    meters = Meters(store)
    key, other = [await admin.create("t", ["read"], "*", None, {"compute_seconds": 20.0}) for _ in range(2)]
    caller, neighbour = await caller_of(admin, key), await caller_of(admin, other)
    for each in meters.both:
        await each.check(caller, "read")
        each.charge(caller, 0.4)
    await meters.run(caller)
    await meters.run(caller)
    meters.both[0].charge(caller, 10.2)
    with pytest.raises(ComputeSpentError) as refused:  # at once where it was spent
        await meters.both[0].check(caller, "feedback")
    assert 20 <= (refused.value.retry_after or 0) <= 30  # the pace needs 33 s for 11 s
    await meters.both[1].check(caller, "read")  # elsewhere after a second
    await meters.run(caller)
    for each in meters.both:
        with pytest.raises(ComputeSpentError):
            await each.check(caller, "read")
        await each.check(neighbour, "read")
    assert sum(seconds for _, seconds in meters.noted) == pytest.approx(11.0)
    meters.clock.now += MINUTE  # half of it idle
    for each in meters.both:
        await each.check(caller, "read")
        each.charge(caller, 1.1)
        with pytest.raises(ComputeSpentError):
            await each.check(caller, "read")


@pytest.mark.parametrize(("budget", "least", "most"), [(20.0, 280, 300), (0.001, 86_380, 86_400)])
async def test_the_pace_may_need_minutes_but_at_most_a_day(
    store: RedisStore, admin: KeyAdmin, budget: float, least: int, most: int
) -> None:
    meters = Meters(store)
    key = await admin.create("t", ["read"], "*", None, {"compute_seconds": budget})
    caller = await caller_of(admin, key)
    for each in meters.both:
        await each.check(caller, "read")
        each.charge(caller, 50.0)
    with pytest.raises(ComputeSpentError):
        await meters.both[0].check(caller, "read")
    await meters.run(caller)
    await meters.run(caller)
    for each in [*meters.both, meters.another()]:  # a worker that does not know the key asks first
        with pytest.raises(ComputeSpentError) as refused:
            await each.check(caller, "read")
        assert least <= (refused.value.retry_after or 0) <= most
        await each.check(caller, None)  # which only asks what the key has used


async def test_clients_that_wait_as_asked_come_one_after_another(store: RedisStore, admin: KeyAdmin) -> None:
    meters = Meters(store)
    key = await admin.create("t", ["read"], "*", None, {"compute_seconds": 20.0})
    caller, meter = await caller_of(admin, key), meters.both[0]

    async def refused() -> int:
        with pytest.raises(ComputeSpentError) as caught:
            await meter.check(caller, "read")
        return caught.value.retry_after or 0

    await meter.check(caller, "read")
    meter.charge(caller, 4.0)  # for which the pace needs 12 s, of which the key may be 3 s ahead
    asked = [await refused() for _ in range(20)]
    assert len(set(asked)) == 20
    assert asked[0] == 9
    assert max(asked) < 9 + MINUTE
    await meters.run(caller)
    meters.clock.now += 10.0
    await meter.check(caller, "read")
    meter.charge(caller, 1.0)
    assert await refused() < 5  # the first of those that wait now


async def test_usage_that_cannot_be_reported_binds_its_worker_at_the_same_pace(
    store: RedisStore, admin: KeyAdmin
) -> None:
    """A store that takes no writes neither frees a key of its budget, nor locks out one that is within its pace."""
    key = await admin.create("t", ["read"], "*", None, {"compute_seconds": 2.0})
    caller, clock = await caller_of(admin, key), Clock(0.0)

    async def command(*words: Any) -> Any:
        if words[0] == "EVAL":
            raise StoreUnavailableError("the store takes no writes")
        return await store.command(*words)

    meter = UsageMeter(store, UsageCounters(command), clock, lambda *_: None)
    for _ in range(100):
        await meter.check(caller, "read")
        meter.charge(caller, 0.03)
        clock.now += 1.0
        await meter.run()
    meter.charge(caller, 1.5)
    await meter.run()
    with pytest.raises(ComputeSpentError) as refused:
        await meter.check(caller, "read")
    assert 42 <= (refused.value.retry_after or 0) <= 43
    clock.now += 43.0
    await meter.check(caller, "read")


async def test_a_request_is_charged_however_long_it_takes(store: RedisStore, admin: KeyAdmin) -> None:
    meters = Meters(store)
    key = await admin.create("t", ["read"], "*", None, {"compute_seconds": 2.0})
    caller, meter = await caller_of(admin, key), meters.both[0]
    await meter.check(caller, "read")
    meters.clock.now += 10 * MINUTE
    await meters.run(caller)
    meter.charge(caller, 1.5)
    await meters.run(caller)
    assert sum(seconds for _, seconds in meters.noted) == 1.5


async def test_an_unexpected_error_is_raised_whatever_the_other_keys_meet(store: RedisStore, admin: KeyAdmin) -> None:
    issued = [await admin.create("t", ["read"], "*", None, {"compute_seconds": 2.0}) for _ in range(2)]
    errors = StoreUnavailableError("the store does not answer"), ZeroDivisionError()

    async def command(*words: Any) -> Any:
        raise errors[any(issued[1].id in str(word) for word in words)]

    meter = UsageMeter(store, UsageCounters(command), Clock(0.0), lambda *_: None)
    for each in issued:
        meter.charge(await caller_of(admin, each), 1.0)
    with pytest.raises(ZeroDivisionError):
        await meter.run()


class _Pause(Awaitable[str]):
    """Yields once, and returns what it is sent."""

    def __await__(self) -> Generator[str, str, str]:
        return (yield "paused")


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_only_the_steps_of_a_coroutine_are_charged() -> None:
    charged = list[float]()

    async def work() -> str:
        burn(0.01)
        try:
            await _Pause()
        except KeyError:
            burn(0.02)
        return await _Pause()

    steps: Any = metered(work(), charged.append)
    assert steps.send(None) == "paused"
    burn(0.2)
    assert steps.throw(KeyError()) == "paused"
    with pytest.raises(StopIteration, match="done"):
        steps.send("done")
    assert [each >= least for each, least in zip(charged, (0.01, 0.02, 0.0), strict=True)] == [True] * 3
    assert sum(charged) < 0.2


async def test_a_cancelled_coroutine_is_cancelled() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def run() -> None:
        await metered(wait(), lambda _: None)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_requests_use_processor_time_of_their_key(store_url: str, admin: KeyAdmin) -> None:
    """The time in threads and in the event loop counts; a worker tells the store, and refuses by what it knows."""
    everything = await admin.create("a", ["admin"])
    key = await admin.create("t", ["admin"], "budget-*", None, {"compute_seconds": 0.05})
    async with worker(store_url, auth="required", key_cache_seconds=0.0) as client:
        await create(client, everything, "budget-own")
        answer = await client.get("/learners", headers=bearer(key))
        while answer.status_code == 200:
            answer = await client.get("/models/budget-own", headers=bearer(key))
        assert (answer.status_code, answer.json()["type"]) == (429, "urn:wager:problem:compute-spent")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await client.get("/models/budget-own", headers=bearer(everything))).status_code == 200
        metrics = await scrape(client, bearer(everything))
        assert value(metrics, "wager_key_refusals_total", key_id=key.id, budget="compute_seconds") == 1


async def test_refusals_use_no_processor_time_of_their_key(store_url: str, admin: KeyAdmin) -> None:
    """So a refused key catches up with its pace, and it may ask when it has."""
    budget = 0.001
    key = await admin.create("t", ["admin"], "pace-*", None, {"compute_seconds": budget})
    async with open_store(store_url) as store, worker(store_url, auth="required") as client:
        await UsageCounters(store.command).spend(key.id, 1.0, budget)
        refusals = [await client.get("/learners", headers=bearer(key)) for _ in range(200)]
        assert {each.status_code for each in refusals} == {429}
        used = (await client.get("/key", headers=bearer(key))).json()["used"]
    assert used["compute_seconds"] == pytest.approx(1.0, abs=0.01)


# --- places of requests in flight


@pytest.mark.parametrize("greedy", ["greedy", ""], ids=["a-key", "unknown-keys"])
async def test_one_key_occupies_at_most_half_of_the_places(greedy: str) -> None:
    """The keys that are not known yet count as one, and a request of them leaves their half when its key is known."""
    places = InFlight(5)
    own = [places.take("/predict", open_path=False) for _ in range(3)]
    for place in own:
        assert place is not None
        place.claim("")
        place.claim(greedy)
    for key, allowed in ((greedy, False), ("other", True)):
        place = places.take("/predict", open_path=False)
        assert place is not None
        if allowed:
            place.claim(key)
        else:
            with pytest.raises(OverloadedError):
                place.claim(key)
            place.free()
    assert own[0] is not None
    own[0].free()
    again = places.take("/predict", open_path=False)
    assert again is not None
    again.claim(greedy)


async def test_a_known_key_needs_no_place_of_the_unknown_ones(store: RedisStore, admin: KeyAdmin) -> None:
    """Not even when its record is read again, or after many unknown keys; but a wrong key with its id does."""
    key, clock = await admin.create("t", ["read"]), Clock(NOW)
    gatekeeper = Gatekeeper(ApiKeyTable(store.command), clock, 5.0)
    assert gatekeeper.known_id(key.text) == ""
    await gatekeeper.identify(key.text)
    clock.now += 60.0
    for n in range(5000):
        with pytest.raises(UnauthenticatedError):
            await gatekeeper.identify(f"wk_{n:012x}_{n:064x}")
    assert gatekeeper.known_id(key.text) == key.id
    assert {gatekeeper.known_id(each) for each in (key.text[:-4] + "0123", "wk_", "")} == {""}


async def test_a_flood_of_unknown_keys_refuses_no_known_one(store_url: str, admin: KeyAdmin) -> None:
    """The flood takes at most half of the places, whatever the known key does."""
    key = await admin.create("t", ["read"])
    async with worker(store_url, auth="required", max_requests_in_flight=10) as client:
        assert (await client.get("/models", headers=bearer(key))).is_success  # now the worker knows the key
        for turn in range(20):
            unknown = [f"wk_{turn:06x}{n:06x}_{n:064x}" for n in range(30)]
            asked = [client.get("/models", headers=bearer(each)) for each in [*unknown, *[key.text] * 4]]
            statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
            assert statuses[len(unknown) :] == [200] * 4
            assert 503 in statuses[: len(unknown)]
