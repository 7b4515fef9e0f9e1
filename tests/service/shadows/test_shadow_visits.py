"""The laws of visits: a lease keeps other workers away, and two workers that fold the same rounds count them once."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from learners.evaluation import progressive
from learners.learner import CompiledLearner
from learners.registry import LEARNERS
from service.background import shadow_folds
from service.background.due_models import DueModels
from service.background.shadow_folds import RestingCompute
from service.compute import Compute
from service.environment import Environment
from service.errors import (
    InvalidInputError,
    ShadowLagsError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from service.lifecycle import promoting
from service.shadows.replica import ShadowReplica
from service.store import keys
from service.store.redis import redis_store
from service.store.redis.redis_store import RedisStore
from service.store.redis.snapshot_parts import SNAPSHOT_VERSION
from service.store.values import Due, Snapshot
from tests.service.replicas.altering import fresh
from tests.service.sample_models import COMPUTE, make_model, play, whole_log
from tests.service.shadows.test_shadow_folds import SQUARECB, caught_up, give_shadow, plain_fold, stored_shadow
from tests.service.workers import Clock, numbered, worker

_ALL = 1000
"""More models than other tests leave in the store."""


def shadowing(store: RedisStore, clock: Clock) -> DueModels:
    rng, new_id = np.random.default_rng(1), numbered("w")
    return shadow_folds.shadow_folds(
        Environment(store, COMPUTE, clock, rng, new_id, store_offset=lambda: clock.now - time.time())
    )


async def test_a_claimed_model_is_left_to_one_worker(store: RedisStore, name: str) -> None:
    model = await make_model(store, name)
    await give_shadow(store, model)
    claims = await asyncio.gather(*(store.claim(Due.SHADOWS, 0.0, _ALL, 10.0) for _ in range(8)))
    assert sum(each.count(model.key) for each in claims) == 1
    assert model.key not in await store.claim(Due.SHADOWS, 9.0, _ALL, 10.0)
    assert model.key in await store.claim(Due.SHADOWS, 11.0, _ALL, 10.0)


async def test_workers_that_overrun_their_leases_count_each_round_once(store: RedisStore, name: str) -> None:
    model, clock = await make_model(store, name), Clock()
    await give_shadow(store, model)
    for seed in (1, 2, 3):
        await play(store, model, 150, seed)
        visits = [shadowing(store, clock) for _ in range(2)]
        await asyncio.gather(*(each._visit_one(model.key) for each in visits))
        _, sums = await plain_fold(store, model, SQUARECB)
        comparison = await caught_up(store, model)
        assert comparison.sums == sums
        assert comparison.sums.rounds == 150 * seed


async def test_a_visit_by_another_worker_continues(store: RedisStore, name: str) -> None:
    model, clock = await make_model(store, name), Clock()
    await give_shadow(store, model)
    await play(store, model, 300)
    assert model.key in await store.claim(Due.SHADOWS, clock.now - time.time(), _ALL, 10.0)  # and its worker dies
    await shadowing(store, clock).run()
    assert (await store.read_shadows(model.key))[0].rounds is None
    clock.now += 11.0
    await shadowing(store, clock).run()
    assert (await store.read_shadows(model.key))[0].rounds == 300


@pytest.mark.parametrize("error", [StoreUnavailableError, StoreFullError])
@pytest.mark.parametrize("method", ["read_shadows", "save_shadow"])
async def test_a_store_that_refuses_delays_a_shadow_by_its_lease(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch, method: str, error: type[StoreError]
) -> None:
    model, clock = await make_model(store, name), Clock()
    await give_shadow(store, model)
    await play(store, model, 300)

    async def fail(*_: object, **__: object) -> None:
        raise error("the store refuses")

    with monkeypatch.context() as patched:
        patched.setattr(store, method, fail)
        await shadowing(store, clock).run()
    clock.now += 11.0
    await shadowing(store, clock).run()
    assert (await store.read_shadows(model.key))[0].rounds == 300


async def test_a_shadow_that_fails_does_not_delay_another(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, it is tried again after a minute."""
    model, clock = await make_model(store, name), Clock()
    good = await give_shadow(store, model)
    assert await store.put_shadow(model.key, "bad", "s2", good.text)
    advance = ShadowReplica.advance

    async def fail(replica: ShadowReplica, has_time: Callable[[], bool]) -> bool:
        if replica.shadow.name == "bad":
            raise StoreCorruptError("noise")
        return await advance(replica, has_time)

    monkeypatch.setattr(ShadowReplica, "advance", fail)
    for seed in (1, 2):
        await play(store, model, 100, seed)
        await shadowing(store, clock).run()
        clock.now += 5.0
    folded = {each.name: each.rounds for each in await store.read_shadows(model.key)}
    assert folded == {"bad": None, "rival": 200}
    await shadowing(store, clock).run()
    clock.now += 5.0
    await play(store, model, 100, 3)
    for wait, rounds in ((0.0, 200), (60.0, 300)):
        clock.now += wait
        await shadowing(store, clock).run()
        assert {each.name: each.rounds for each in await store.read_shadows(model.key)}["rival"] == rounds


async def test_a_newer_snapshot_is_soon_left_to_another_worker(store: RedisStore, name: str) -> None:
    """During an upgrade, a worker that cannot read a shadow must not keep those that can from folding it."""
    model, clock = await make_model(store, name), Clock()
    await give_shadow(store, model)
    await play(store, model, 10)
    await caught_up(store, model)
    (key,) = await store.command("KEYS", keys.shadow(*model.key, 0)[:-1] + "*")
    await store.command("HSET", key, "version", SNAPSHOT_VERSION + 1)
    await play(store, model, 100, 2)
    await shadowing(store, clock).run()
    assert (await store.read_shadows(model.key))[0].rounds == 10
    offset = clock.now - time.time()
    assert model.key not in await store.claim(Due.SHADOWS, offset + 1.0, _ALL, 0.0)
    assert model.key in await store.claim(Due.SHADOWS, offset + 2.0, _ALL, 10.0)


SINGLE = sorted(name for name, learner in LEARNERS.items() if issubclass(learner, CompiledLearner))


@pytest.mark.parametrize("algorithm", SINGLE)
async def test_no_shadow_waits_for_a_compilation(store: RedisStore, name: str, algorithm: str) -> None:
    """`python -m learners` has compiled the loop for the rounds of a log, whatever the learner.

    A worker that compiles it answers no request of the model for some ten seconds.
    """
    model = await make_model(store, name)
    try:
        await give_shadow(store, model, {"algorithm": algorithm})
    except InvalidInputError:
        pytest.skip("cannot shadow this model")
    await play(store, model, 20)
    loop: Any = progressive._progress_compiled
    before = loop.stats.cache_misses.copy()
    assert (await caught_up(store, model)).sums.rounds == 20
    missed = loop.stats.cache_misses - before
    assert not missed, "run python -m learners"


# --- shadows that lag: a promotion refuses what would take too long, and the log keeps a bounded number


@pytest.mark.parametrize(
    ("bound", "refused"), [("service.lifecycle.promoting.MOST_LAG", 20), ("service.costs.PROMOTION", 2000)]
)
async def test_a_promotion_refuses_a_large_lag(
    store: RedisStore, store_url: str, name: str, bound: str, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await make_model(store, name)
    await give_shadow(store, model)
    await play(store, model, 300)
    monkeypatch.setattr(bound, refused)
    async with worker(store_url) as client:
        path, body = f"/models/{name}/promote", {"shadow": "rival"}
        answer = await client.post(path, json=body, headers={"If-Match": "*"})
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, "shadow-lags")
        assert "lags by 300 rounds; a promotion folds at most" in answer.json()["detail"]
        assert (await client.get(f"/models/{name}")).json()["changes"]["count"] == 0
        assert (await client.get(f"/models/{name}/snapshots")).json()["snapshots"] == []
        await caught_up(store, model)
        again = await client.post(path, json=body, headers={"If-Match": "*"})
        assert again.status_code == 200, again.text


async def test_a_promotion_stops_folding_a_shadow_that_begins_again(store: RedisStore, name: str) -> None:
    model = await make_model(store, name)
    shadow = await give_shadow(store, model)
    replica = ShadowReplica(model, store, COMPUTE, shadow)
    goes_on = promoting.within(replica, model, shadow)
    assert goes_on()
    replica.round_count = 2 * promoting.MOST_LAG
    assert not goes_on()
    replica.round_count, replica.shadow = 0, shadow._replace(restarts=1)
    assert not goes_on()
    with pytest.raises(ShadowLagsError, match="lags by 10001 rounds; a promotion folds at most 10000"):
        promoting.check_lag(model, shadow, 10_001)
    promoting.check_lag(model, shadow, 10_000)


async def test_a_shadow_beyond_the_bound_begins_again(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "KEPT_FOR_SHADOWS", 100)
    model = await make_model(store, name, retain_rounds=0)
    await give_shadow(store, model)
    await play(store, model, 30)
    assert (await caught_up(store, model)).sums.rounds == 30
    await play(store, model, 900, seed=2)
    own = await fresh(store, model)
    await own.snapshot()
    kept = len(await whole_log(store, model.key))
    assert 100 <= kept < 900
    replica, shadow = await caught_up(store, model), await stored_shadow(store, model)
    assert (shadow.restarts, shadow.since_rounds) == (1, 930 - kept)
    assert (replica.sums.since_round, replica.sums.rounds) == (930 - kept + 1, kept)


async def test_a_change_without_rounds_gets_a_snapshot(store: RedisStore, name: str, store_url: str) -> None:
    async with worker(store_url) as client:
        model = await make_model(store, f"{name}-plain")
        await play(store, model, 20)
        own = await fresh(store, model)
        await own.snapshot()
        patched = await client.patch(f"/models/{name}-plain", json={"mode": "frozen"}, headers={"If-Match": "*"})
        assert patched.status_code == 200, patched.text
        await own.catch_up()
        await own.snapshot()
        found: Snapshot | None = await store.load_snapshot(model.key)
        assert found is not None
        assert (found.round_count, found.change_count) == (20, 1)


async def test_folding_rests_as_long_as_it_works() -> None:
    now, slept = [0.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def work(seconds: float) -> float:
        assert len(slept) == done[0]
        now[0] += seconds
        return seconds

    done, compute = [0], RestingCompute(Compute(2), lambda: now[0], sleep)
    for seconds in (0.25, 17.0):
        assert await compute.run("a", work, seconds) == seconds
        done[0] += 1
    with pytest.raises(ZeroDivisionError):
        await compute.run("a", lambda: 1 // 0)
    assert slept == [0.25, shadow_folds._LONGEST_REST, 0.0]
