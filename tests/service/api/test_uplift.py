"""The laws of the holdout's comparison, of the reward's meaning and of the curve's dates, through the interface."""

from datetime import UTC, datetime
from typing import Any

import httpx2
import numpy as np
import pytest

from service.models.reading import stored_model
from service.replicas.replica import Replica
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, body_of
from tests.service.api.test_statistics import publish, statistics
from tests.service.sample_models import COMPUTE, LABELS, UNIFORM
from tests.service.workers import Clock, worker

HALF, FIFTH = {"fraction": 0.5, "policy": "uniform"}, {"fraction": 0.2, "policy": "uniform"}


async def judged(api: Api, made: list[dict[str, Any]]) -> None:
    feedback = [{"prediction_id": each["prediction_id"], "correct": i % 3 == 0} for i, each in enumerate(made)]
    body_of(await api.post("/feedback/batch", feedback=feedback), 200)


async def replica_of(store: RedisStore, name: str) -> Replica:
    stored = await store.get_model(name)
    assert stored is not None
    replica = Replica(stored_model(stored), store, COMPUTE)
    await replica.catch_up()
    return replica


async def test_a_change_of_the_holdout_starts_a_new_comparison(
    api: Api, client: httpx2.AsyncClient, store: RedisStore
) -> None:
    """Rounds count if their predictions had seen the change, also for a worker that starts from a snapshot."""
    await api.create(learner=UNIFORM, holdout=HALF)
    await judged(api, await api.batch(60))
    late = await api.batch(20)
    following = await replica_of(store, api.name)
    await following.snapshot()
    body_of(await api.change("*", holdout=FIFTH), 200)
    await judged(api, late)
    await judged(api, await api.batch(40))
    await following.catch_up()
    fresh = (await replica_of(store, api.name)).statistics.counts()
    assert following.statistics.counts() == fresh
    await publish(store, api.name)
    found, log = await statistics(client, api.name), await api.rounds()
    uplift = found["uplift"]
    assert uplift["since_round"] == 61
    assert uplift["sample_ratio"]["expected"] == 0.2
    for arm, held in (("served", False), ("holdout", True)):
        rewards = [line["reward"] for line in log[80:] if line["holdout"] == held]
        assert uplift[arm]["rounds"] == len(rewards)
        assert uplift[arm]["mean"] == (pytest.approx(np.mean(rewards)) if rewards else None)
    assert found["holdout"]["rounds"] == sum(line["holdout"] for line in log)
    copy = api.named(f"{api.name}-copy")
    body_of(await api.post(f"/models/{api.name}/clone", name=copy.name), 201)
    assert (await replica_of(store, copy.name)).statistics.counts().uplift == fresh.uplift
    body_of(await api.change("*", holdout=None), 200)
    await publish(store, api.name)
    assert (await replica_of(store, api.name)).statistics.counts().uplift.served.rounds == 0


async def test_changes_that_leave_the_holdout_alone_continue_the_comparison(api: Api, store: RedisStore) -> None:
    await api.create(learner=UNIFORM)
    body_of(await api.change("*", holdout=HALF), 200)
    await judged(api, await api.batch(30))
    following = await replica_of(store, api.name)
    for change in ({"mode": "frozen"}, {"reward": "clicks"}, {"labels": {"add": ["new"]}}, {"holdout": HALF}):
        body_of(await api.change("*", **change), 200)
        await following.catch_up()
    await judged(api, await api.batch(30))
    await following.catch_up()
    for replica in (following, await replica_of(store, api.name)):
        uplift = replica.statistics.counts().uplift
        assert (uplift.since_round, uplift.served.rounds + uplift.holdout.rounds) == (1, 60)


async def test_several_changes_at_once_start_at_the_last_one_for_every_worker(api: Api, store: RedisStore) -> None:
    """A worker that sees only the last of them counts as one that saw each."""
    await api.create(learner=UNIFORM, holdout=HALF)
    await judged(api, await api.batch(30))
    following = await replica_of(store, api.name)
    for holdout in (FIFTH, None, HALF):
        body_of(await api.change("*", holdout=holdout), 200)
        if holdout is None:
            await following.catch_up()
    await judged(api, await api.batch(30))
    await following.catch_up()
    found = following.statistics.counts()
    assert found == (await replica_of(store, api.name)).statistics.counts()
    assert (found.uplift.since_change, found.uplift.since_round, found.uplift.share) == (3, 31, 0.5)


async def test_the_metric_is_what_the_rewards_mean(api: Api, client: httpx2.AsyncClient, store: RedisStore) -> None:
    """In statistics, in the list, and after a change, a clone and a reward between 0 and 1."""
    await api.create(learner={"algorithm": "fastcb"}, reward="clicks")
    copy = api.named(f"{api.name}-copy")

    async def metrics(name: str) -> set[str]:
        await publish(store, name)
        page = (await client.get("/statistics", params={"cursor": name[:-1], "limit": 200})).json()
        listed = [each["metric"] for each in page["models"] if each["name"] == name]
        return {*listed, (await statistics(client, name))["metric"]}

    await judged(api, await api.batch(20))
    assert await metrics(api.name) == {"clicks"}
    body_of(await api.post(f"/models/{api.name}/clone", name=copy.name), 201)
    assert await metrics(copy.name) == {"clicks"}
    body_of(await api.change("*", reward="accuracy"), 200)
    assert await metrics(api.name) == {"accuracy"}
    (made,) = await api.batch(1)
    body_of(await api.judge(made["prediction_id"], reward=0.5), 200)
    assert await metrics(api.name) == {"value"}


async def test_clicks_without_silence_have_a_warning(api: Api) -> None:
    (warning,) = body_of(await api.create(learner=UNIFORM, reward="clicks"), 201)["warnings"]
    assert warning.startswith('on_expiry: "drop"')
    listening = {"on_expiry": "incorrect", "window_seconds": 60.0}
    assert body_of(await api.change("*", **listening), 200)["warnings"] == []
    assert body_of(await api.change("*", on_expiry="drop"), 200)["warnings"] == [warning]
    assert body_of(await api.change("*", reward="value"), 200)["warnings"] == []


async def test_the_curve_has_dates_that_never_decrease(store_url: str, store: RedisStore, name: str) -> None:
    """A point has the latest date up to its end: of feedback, also by a slow clock, and of imports, also of old rounds.

    A copy, and a worker that starts from a snapshot, have the same dates.
    """
    clock = Clock()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        await api.create(learner=UNIFORM)
        begun = clock.now
        for step in (0.0, 100.0, -50.0, 200.0):
            clock.now = begun + step
            await judged(api, await api.batch(3))
        clock.now = begun + 300.0
        old = {"context": [0.6, 0.8, 0.0], "label": LABELS[0], "propensity": 0.5, "correct": True}
        rounds = [old | {"at": "2001-02-03T04:05:06Z"}] * 3
        body_of(await api.post(f"/models/{name}/rounds", source="old", offset=0, rounds=rounds), 200)
        replica = await replica_of(store, name)
        await replica.snapshot()
        await publish(store, name)
        points = (await statistics(client, name))["curve"]["points"]
        times = [0.0] * 3 + [100.0] * 6 + [200.0] * 3 + [300.0] * 3
        assert [datetime.fromisoformat(point["last_at"]) for point in points] == [
            datetime.fromtimestamp(begun + each, UTC) for each in times
        ]
        assert points[0]["last_at"].endswith("Z")
        assert (await replica_of(store, name)).statistics.counts() == replica.statistics.counts()


async def test_an_evaluation_says_whether_to_trust_it(api: Api) -> None:
    await api.create(learner=UNIFORM)
    await judged(api, await api.batch(200))
    policies = body_of(await api.get(f"/models/{api.name}/evaluation"), 200)["policies"]
    assert [(each["policy"], each["trust"]) for each in policies][:2] == [("served", "yes"), ("uniform", "yes")]
    assert all(each["trust_reason"].endswith(".") for each in policies)
    assert all((each["trust"] == "yes") <= (each["estimates"][0]["doubt"] is None) for each in policies)
