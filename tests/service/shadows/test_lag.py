"""The laws of shadows that lag: a promotion refuses what would take too long, and the log keeps a bounded number."""

import pytest

from service.background import shadow_folds
from service.background.shadow_folds import RestingCompute
from service.compute import Compute
from service.errors import ShadowLagsError
from service.lifecycle import promoting
from service.replicas.replica import Replica
from service.shadows.replica import ShadowReplica
from service.store.base import Snapshot
from service.store.redis import redis_store
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import COMPUTE, make_model, play, whole_log
from tests.service.shadows.test_shadow_folds import caught_up, give_shadow, stored_shadow
from tests.service.workers import worker


@pytest.mark.parametrize(
    ("bound", "refused"), [("service.lifecycle.promoting.MOST_LAG", 20), ("service.costs.PROMOTION", 2000)]
)
async def test_a_promotion_refuses_a_large_lag(
    store: RedisStore, store_url: str, name: str, bound: str, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the lag and the most that it folds, changes nothing, and is repeated when the shadow has caught up."""
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
    """It folds at most twice the lag that it accepts, and not a shadow whose snapshot is lost."""
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
    """The log keeps a bounded number of rounds for it; it says from which one on it has folded."""
    monkeypatch.setattr(redis_store, "KEPT_FOR_SHADOWS", 100)
    model = await make_model(store, name, retain_rounds=0)
    await give_shadow(store, model)
    await play(store, model, 30)
    assert (await caught_up(store, model)).sums.rounds == 30
    await play(store, model, 900, seed=2)
    own = Replica(model, store, COMPUTE)
    await own.catch_up()
    await own.snapshot()
    kept = len(await whole_log(store, model.key))
    assert 100 <= kept < 900
    replica, shadow = await caught_up(store, model), await stored_shadow(store, model)
    assert (shadow.restarts, shadow.since_rounds) == (1, 930 - kept)
    assert (replica.sums.since_round, replica.sums.rounds) == (930 - kept + 1, kept)


async def test_a_change_without_rounds_gets_a_snapshot(store: RedisStore, name: str, store_url: str) -> None:
    """A promotion after the last round ends its hold of rounds: a snapshot of the same rounds has the change."""
    async with worker(store_url) as client:
        model = await make_model(store, f"{name}-plain")
        await play(store, model, 20)
        own = Replica(model, store, COMPUTE)
        await own.catch_up()
        await own.snapshot()
        patched = await client.patch(f"/models/{name}-plain", json={"mode": "frozen"}, headers={"If-Match": "*"})
        assert patched.status_code == 200, patched.text
        await own.catch_up()
        await own.snapshot()
        found: Snapshot | None = await store.load_snapshot(model.key)
        assert found is not None
        assert (found.round_count, found.change_count) == (20, 1)


async def test_folding_rests_as_long_as_it_works() -> None:
    """One computation at a time, and then a pause of the same length, at most a second."""
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
