"""The laws of `/metrics`: after known traffic, every worker reports the exact counts of all workers."""

import asyncio
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.background.upkeep import PUBLISH_EVERY
from service.replicas.statistics import SLOTS, STATISTICS_VERSION
from service.store.redis.redis_store import RedisStore
from service.store.values import PublishedStatistics
from tests.service.metrics import Samples, scrape, settled, value
from tests.service.sample_models import GAPTRON, LABELS, definition, make_model, play, some_contexts
from tests.service.workers import START, Clock, worker

REQUESTS = "wager_http_request_duration_seconds_count"


async def create(client: httpx2.AsyncClient, name: str, **fields: Any) -> None:
    assert (await client.post("/models", json=definition(name, **fields))).status_code == 201


async def predict(client: httpx2.AsyncClient, name: str, n: int, seed: int = 1) -> list[dict[str, Any]]:
    bodies = [{"model": name, "context": context} for context in some_contexts(seed, n)]
    return [(await client.post("/predict", json=body)).json() for body in bodies]


async def judge(client: httpx2.AsyncClient, prediction_id: str, correct: bool) -> int:
    body = {"prediction_id": prediction_id, "correct": correct}
    return (await client.post("/feedback", json=body)).status_code


def feedback_counts(samples: Samples, name: str) -> dict[str, float]:
    found = {
        dict(labels)["status"]: n
        for (metric, labels), n in samples.items()
        if metric == "wager_feedback_total" and ("model", name) in labels
    }
    return {status: n for status, n in found.items() if n}


def check_model(samples: Samples, name: str, drawn: list[dict[str, Any]]) -> None:
    closed, right = drawn[:40], drawn[:40:4]
    weights = [1 / d["propensity"] for d in closed]
    assert value(samples, "wager_predictions_total", model=name) == 63
    assert feedback_counts(samples, name) == {"recorded": 40, "duplicate": 5, "conflict": 1, "unknown": 1}
    assert value(samples, "wager_correct_total", model=name) == 10
    assert value(samples, "wager_open_predictions", model=name) == 23
    assert value(samples, "wager_feedback_delay_seconds_count", model=name) == 40
    assert value(samples, "wager_propensity_sum", model=name) == pytest.approx(sum(d["propensity"] for d in closed))
    surprisal = -sum(math.log(d["propensity"]) for d in closed)
    assert value(samples, "wager_surprisal_nats_sum", model=name) == pytest.approx(surprisal, abs=1e-4)
    assert value(samples, "wager_uniform_weight_total", model=name) == pytest.approx(sum(weights) / len(LABELS))
    size = sum(weights) ** 2 / sum(w * w for w in weights)
    assert 0.0 < value(samples, "wager_effective_sample_size_rounds", model=name) <= size * (1.0 + 1e-9)
    served = {"model": name, "policy": "served", "estimator": "mean"}
    assert value(samples, "wager_reward_ratio", **served) == 10 / 40
    ips = sum(1 / d["propensity"] for d in right) / len(LABELS) / 40
    assert value(samples, "wager_reward_ratio", model=name, policy="uniform", estimator="ips") == pytest.approx(ips)
    snips = sum(1 / d["propensity"] for d in right) / sum(weights)
    assert value(samples, "wager_reward_ratio", model=name, policy="uniform", estimator="snips") == pytest.approx(snips)


async def test_open_predictions_are_those_of_the_window(store_url: str, name: str) -> None:
    window, clock = 3200.0, Clock(START + 50.0)  # in the middle of a slot of 100 s
    async with worker(store_url, clock, metrics_models=name) as client:
        await create(client, name, window_seconds=window)
        opened = []
        for expected, step in ((9, 0.0), (18, window / 2), (18, window / 2 + window / SLOTS)):
            clock.now += step
            drawn = await predict(client, name, 10)
            opened += drawn
            # Once this round is published, so are the predictions before it.
            assert await judge(client, drawn[0]["prediction_id"], True) == 200
            samples = await settled(client, name, len(opened), clock)
            assert value(samples, "wager_open_predictions", model=name) == expected
        for prediction in opened[-4:]:
            assert await judge(client, prediction["prediction_id"], True) == 200
        clock.now += 10.0
        samples = await settled(client, name, 30, clock)  # a publication under way may lack a round
        assert value(samples, "wager_open_predictions", model=name) == 14


async def test_metrics_report_an_unavailable_store(tmp_path: Path) -> None:
    async with worker(f"unix://{tmp_path}/nobody.sock", store_timeout_seconds=0.5) as client:
        assert (await client.get("/models")).status_code == 503
        samples = await scrape(client)
        assert value(samples, "wager_store_up") == 0
        assert value(samples, REQUESTS, method="GET", route="/models", status="503") == 1
        assert not any(metric.startswith("wager_predictions") for metric, _ in samples)


def reported(samples: Samples) -> set[str]:
    return {dict(labels)["model"] for metric, labels in samples if metric == "wager_predictions_total"}


async def test_series_are_limited(store_url: str, name: str) -> None:
    async with worker(store_url, metrics_models=f"{name}-b, {name}-a,{name}-gone") as client:
        for letter in "abc":
            await create(client, f"{name}-{letter}")
        samples = await scrape(client)
        assert reported(samples) == {f"{name}-a", f"{name}-b"}
        assert value(samples, "wager_models_omitted", reason="maximum") == 0
        assert value(samples, "wager_models_omitted", reason="unlisted") == value(samples, "wager_models") - 2


async def test_the_busiest_models_have_series(empty: str, name: str) -> None:
    async with worker(empty, metrics_max_models=1) as client:
        for letter in "abc":
            await create(client, f"{name}-{letter}")
        await predict(client, f"{name}-b", 2)
        contexts = some_contexts(1, 1_000)
        batch = await client.post("/predict/batch", json={"model": f"{name}-c", "contexts": contexts})
        assert batch.status_code == 200
        async with asyncio.timeout(30.0):
            while reported(samples := await scrape(client)) != {f"{name}-c"}:  # noqa: ASYNC110  counted by a task
                await asyncio.sleep(0.1)
        assert value(samples, "wager_models_omitted", reason="maximum") == value(samples, "wager_models") - 1


async def test_unknown_paths_and_methods_add_one_series_each(store_url: str) -> None:
    """Versions of a path are one route."""
    async with worker(store_url, metrics_max_models=0) as client:
        for i in range(5):
            await client.get(f"/no/such/{i}")
            await client.request(f"BREW{i}", "/predict")
            await client.get(("/livez", "/v1/livez")[i % 2])
        counted = {labels: n for (metric, labels), n in (await scrape(client)).items() if metric == REQUESTS}
        assert {dict(labels)["route"] for labels in counted} <= {"unmatched", "/predict", "/livez"}
        assert sorted(counted.values()) == [5, 5, 5]


async def test_counting_goes_on_from_a_snapshot(store: RedisStore, store_url: str, name: str) -> None:
    model = await make_model(store, name)
    await play(store, model, 1200)
    for seed in (1, 2):
        clock = Clock(START + 60.0 * seed)
        async with worker(store_url, clock, metrics_models=name) as client:
            drawn = await predict(client, name, 1, seed)
            assert await judge(client, drawn[0]["prediction_id"], True) == 200
            clock.now += PUBLISH_EVERY
            predictions = value(await scrape(client), "wager_predictions_total", model=name)
            samples = await settled(client, name, int(predictions), clock)
        assert value(samples, "wager_propensity_count", model=name) == 1200 + seed
        assert value(samples, "wager_snapshot_lag_rounds", model=name) <= seed
        assert value(samples, "wager_snapshot_timestamp_seconds", model=name) > 1e9


@pytest.mark.parametrize(
    "published", [b"noise", json.dumps({"version": STATISTICS_VERSION + 1}).encode()], ids=["damaged", "newer"]
)
async def test_unreadable_statistics_are_not_reported_as_zeros(
    store: RedisStore, store_url: str, name: str, published: bytes
) -> None:
    other = f"{name}-other"
    async with worker(store_url, metrics_models=f"{name},{other}") as client:
        for each in (name, other):
            await create(client, each)
            drawn = await predict(client, each, 1)
            assert await judge(client, drawn[0]["prediction_id"], True) == 200
        model = await store.get_model(name)
        assert model is not None
        version = STATISTICS_VERSION + 1
        await store.publish_statistics(model.key, PublishedStatistics(10**9, published, 1, 0, version))
        samples = await scrape(client)
        reported = {
            which: {metric for metric, labels in samples if ("model", which) in labels} for which in (name, other)
        }
    statistics = {
        metric
        for metric in reported[other]
        if re.search("propensity|surprisal|delay|labels|predictions$|uncount|uniform", metric)
    }
    assert len(statistics) > 9
    assert reported[other] - reported[name] == statistics
    for metric in ("wager_predictions_total", "wager_folded_rounds_total", "wager_reward_ratio"):
        assert metric in reported[name]


async def test_every_worker_reports_the_model(store_url: str, name: str) -> None:
    """After traffic over two workers, each reports the same, correct numbers."""
    clock = Clock()
    async with (
        worker(store_url, clock, metrics_models=name) as one,
        worker(store_url, clock, seed=2, metrics_models=name) as other,
    ):
        await create(one, name, learner=GAPTRON)
        drawn = [d for i, client in enumerate((one, other)) for d in await predict(client, name, 31 + i, seed=i)]
        turn = itertools.cycle((one, other))
        for i, prediction in enumerate(drawn[:40]):
            assert await judge(next(turn), prediction["prediction_id"], i % 4 == 0) == 200
        for i, prediction in enumerate(drawn[:5]):
            assert await judge(next(turn), prediction["prediction_id"], i % 4 == 0) == 200
        assert await judge(next(turn), drawn[0]["prediction_id"], False) == 409
        assert await judge(next(turn), f"{name}:never-made", True) == 404
        for client in (one, other):
            check_model(await settled(client, name, 63, clock), name, drawn)
