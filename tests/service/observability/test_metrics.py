"""The laws of `/metrics`: after known traffic, every worker reports the exact counts of all workers."""

import asyncio
import itertools
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.background.upkeep import PUBLISH_EVERY
from service.replicas.statistics import SLOTS, STATISTICS_VERSION
from service.store.redis.redis_store import RedisStore
from service.store.values import PublishedStatistics
from tests.servers import wait_until
from tests.service.metrics import Samples, scrape, settled, value
from tests.service.sample_models import GAPTRON, LABELS, RANKING, definition, make_model, play, some_contexts
from tests.service.wager import clients_of_each, serve
from tests.service.workers import START, Clock, worker

REQUESTS = "wager_http_request_duration_seconds_count"
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


async def create(client: httpx2.AsyncClient, name: str, **fields: Any) -> None:
    """Create a model."""
    assert (await client.post("/models", json=definition(name, **fields))).status_code == 201


async def predict(client: httpx2.AsyncClient, name: str, n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Make n predictions, one at a time."""
    bodies = [{"model": name, "context": context} for context in some_contexts(seed, n)]
    return [(await client.post("/predict", json=body)).json() for body in bodies]


async def judge(client: httpx2.AsyncClient, prediction_id: str, correct: bool) -> int:
    """Send feedback, and return the status of the answer."""
    body = {"prediction_id": prediction_id, "correct": correct}
    return (await client.post("/feedback", json=body)).status_code


def feedback_counts(samples: Samples, name: str) -> dict[str, float]:
    """Return the nonzero feedback counts of a model by status."""
    found = {
        dict(labels)["status"]: n
        for (metric, labels), n in samples.items()
        if metric == "wager_feedback_total" and ("model", name) in labels
    }
    return {status: n for status, n in found.items() if n}


@ON_LINUX
async def test_every_worker_reports_the_counts_of_all(tmp_path: Path) -> None:
    """After traffic over three workers, each worker reports the same, correct counts."""
    with serve(tmp_path, workers=3) as wager:
        async with clients_of_each(wager, 3) as clients:
            await create(clients[0], "m", learner=GAPTRON)
            before = await scrape(clients[0])
            drawn = [d for i, client in enumerate(clients) for d in await predict(client, "m", 20 + i, seed=i)]
            turn = itertools.cycle(clients)
            for i, prediction in enumerate(drawn[:40]):
                assert await judge(next(turn), prediction["prediction_id"], i % 4 == 0) == 200
            for prediction in drawn[:5]:
                assert await judge(next(turn), prediction["prediction_id"], drawn.index(prediction) % 4 == 0) == 200
            assert await judge(next(turn), drawn[0]["prediction_id"], False) == 409
            assert await judge(next(turn), "m:never-made", True) == 404
            await asyncio.gather(*(settled(client, "m", 63) for client in clients))
            await all_counted(clients, before)
            for client in clients:
                check_model(await scrape(client), drawn)


async def all_counted(clients: list[httpx2.AsyncClient], before: Samples) -> None:
    """Wait until each worker reports the requests to all workers; a publication takes about a second."""
    truth = {("/predict", "200"): 63, ("/feedback", "200"): 45, ("/feedback", "409"): 1, ("/feedback", "404"): 1}
    async with asyncio.timeout(60.0):
        for client in clients:
            while True:
                samples = await scrape(client)
                reported = {
                    (route, status): value(samples, REQUESTS, method="POST", route=route, status=status)
                    for route, status in truth
                    if (REQUESTS, frozenset({("method", "POST"), ("route", route), ("status", status)})) in samples
                }
                if reported == truth:
                    break
                await asyncio.sleep(0.1)
    assert not any("/predict" in dict(labels).values() for _, labels in before)


def check_model(samples: Samples, drawn: list[dict[str, Any]]) -> None:
    """Check the model's metrics against the answers that the client received."""
    closed, right = drawn[:40], drawn[:40:4]
    weights = [1 / d["propensity"] for d in closed]
    assert value(samples, "wager_predictions_total", model="m") == 63
    assert feedback_counts(samples, "m") == {"recorded": 40, "duplicate": 5, "conflict": 1, "unknown": 1}
    assert value(samples, "wager_correct_total", model="m") == 10
    assert value(samples, "wager_open_predictions", model="m") == 23
    assert value(samples, "wager_feedback_delay_seconds_count", model="m") == 40
    assert value(samples, "wager_propensity_sum", model="m") == pytest.approx(sum(d["propensity"] for d in closed))
    surprisal = -sum(math.log(d["propensity"]) for d in closed)
    assert value(samples, "wager_surprisal_nats_sum", model="m") == pytest.approx(surprisal, abs=1e-4)
    assert value(samples, "wager_inverse_propensity_total", model="m") == pytest.approx(sum(weights))
    size = sum(weights) ** 2 / sum(w * w for w in weights)
    assert value(samples, "wager_effective_sample_size_rounds", model="m") == pytest.approx(size)
    served = {"model": "m", "policy": "served", "estimator": "mean"}
    assert value(samples, "wager_accuracy_ratio", **served) == 10 / 40
    ips = sum(1 / d["propensity"] for d in right) / len(LABELS) / 40
    assert value(samples, "wager_accuracy_ratio", model="m", policy="uniform", estimator="ips") == pytest.approx(ips)
    snips = sum(1 / d["propensity"] for d in right) / sum(weights)
    assert value(samples, "wager_accuracy_ratio", model="m", policy="uniform", estimator="snips") == pytest.approx(
        snips
    )


async def test_open_predictions_are_those_of_the_window(store_url: str, name: str) -> None:
    """An answered prediction, or one older than the window, is no longer open."""
    window, clock = 3200.0, Clock(START + 50.0)  # in the middle of a slot of 100 s
    async with worker(store_url, clock, metrics_models=name) as client:
        await create(client, name, window_seconds=window)
        opened = []
        for expected, step in ((10, 0.0), (20, window / 2), (20, window / 2 + window / SLOTS)):
            clock.now += step
            drawn = await predict(client, name, 10)
            opened += drawn
            samples = await published(client, name, len(opened))
            assert value(samples, "wager_open_predictions", model=name) == expected
        for prediction in opened[-4:]:
            assert await judge(client, prediction["prediction_id"], True) == 200
        clock.now += 10.0
        samples = await settled(client, name, 30, clock)  # a publication under way may lack a round
        assert value(samples, "wager_open_predictions", model=name) == 16


async def published(client: httpx2.AsyncClient, name: str, predictions: int) -> Samples:
    """Return metrics after the next upkeep, which publishes statistics."""
    await asyncio.sleep(1.3)
    return await settled(client, name, predictions)


async def test_metrics_report_an_unavailable_store(tmp_path: Path) -> None:
    """Without a store, metrics are still answered and report `wager_store_up` 0."""
    async with worker(f"unix://{tmp_path}/nobody.sock", store_timeout_seconds=0.5) as client:
        assert (await client.get("/models")).status_code == 503
        samples = await scrape(client)
        assert value(samples, "wager_store_up") == 0
        assert value(samples, REQUESTS, method="GET", route="/models", status="503") == 1
        assert not any(metric.startswith("wager_predictions") for metric, _ in samples)


async def test_series_are_limited(store_url: str, name: str) -> None:
    """Only the named models, or the first few, have series; the others are counted as left out."""
    async with worker(store_url, metrics_models=f"{name}-b, {name}-a,{name}-gone") as client:
        for letter in "abc":
            await create(client, f"{name}-{letter}")
        samples = await scrape(client)
        reported = {dict(labels)["model"] for metric, labels in samples if metric == "wager_predictions_total"}
        assert reported == {f"{name}-a", f"{name}-b"}
    async with worker(store_url, metrics_max_models=1) as client:
        samples = await scrape(client)
        assert sum(metric == "wager_predictions_total" for metric, _ in samples) <= 1
        left_out = value(samples, "wager_models") - 1
        assert value(samples, "wager_models_left_out") >= left_out >= 2


async def test_unknown_paths_and_methods_add_one_series_each(store_url: str) -> None:
    """All unknown paths share one series, and so do all unknown methods."""
    async with worker(store_url, metrics_max_models=0) as client:
        for i in range(5):
            await client.get(f"/no/such/{i}")
            await client.request(f"BREW{i}", "/predict")
        counted = {labels: n for (metric, labels), n in (await scrape(client)).items() if metric == REQUESTS}
        assert {dict(labels)["route"] for labels in counted} <= {"unmatched", "/predict"}
        assert sorted(counted.values()) == [5, 5]


async def test_versions_of_a_path_are_one_route(store_url: str) -> None:
    """Requests to `/v1/livez` and `/livez` are counted together."""
    async with worker(store_url, metrics_max_models=0) as client:
        for path in ("/livez", "/v1/livez"):
            await client.get(path)
        for _ in range(2):  # a second scrape reports the same count
            assert value(await scrape(client), REQUESTS, method="GET", route="/livez", status="200") == 2


async def test_answers_of_many_labels_have_no_uniform_estimate(store_url: str, name: str) -> None:
    """If an answer is not a single label, the accuracy is reported for the served policy only."""
    async with worker(store_url, metrics_models=name) as client:
        await create(client, name, learner=RANKING)
        drawn = await predict(client, name, 3)
        for prediction in drawn:
            assert await judge(client, prediction["prediction_id"], True) == 200
        samples = await published(client, name, 3)
        policies = {dict(labels)["policy"] for metric, labels in samples if metric == "wager_accuracy_ratio"}
        assert policies == {"served"}
        assert not any(metric == "wager_effective_sample_size_rounds" for metric, _ in samples)


async def test_counting_goes_on_from_a_snapshot(store: RedisStore, store_url: str, name: str) -> None:
    """A new worker that starts from a snapshot counts every round exactly once."""
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
    """A model with unreadable statistics lacks only the metrics that need them; other models lack none."""
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
        if re.search("propensity|surprisal|delay|labels|predictions$|uncount", metric)
    }
    assert len(statistics) > 10
    assert reported[other] - reported[name] == statistics
    for metric in ("wager_predictions_total", "wager_folded_rounds_total", "wager_accuracy_ratio"):
        assert metric in reported[name]


@ON_LINUX
def test_the_shared_folder_is_deleted_with_the_service(tmp_path: Path) -> None:
    """The files in which workers share counters are deleted when the service stops."""
    (tmp_path / "tmp").mkdir()
    with serve(tmp_path, workers=2, TMPDIR=str(tmp_path / "tmp")) as wager:
        wait_until(lambda: bool(list((tmp_path / "tmp").glob("wager-metrics-*/*.db"))))
        wager.stop()
        assert list((tmp_path / "tmp").glob("wager-metrics-*")) == []
