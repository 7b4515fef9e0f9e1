"""A filled history is one that requests could have made."""

import httpx2
import numpy as np
import pytest
import redis

from benchmarks.log_filler import BATCH, environment, fill, fold, open_session, unwritten
from benchmarks.measurements.history import comparison_rows
from benchmarks.server import Server
from benchmarks.traffic import D, K
from service.choice.requests import PredictionRequest
from service.store import keys
from service.store.embedded.server import EmbeddedServer


async def test_filled_rounds_are_in_the_log_and_are_learned(
    client: httpx2.AsyncClient, store_url: str, name: str
) -> None:
    """Learn all filled rounds, one in three right, leave no prediction, and let a new session continue after them."""
    features = {"kind": "dense", "size": D, "norm": "unit"}
    body = {"name": name, "labels": [f"label-{k}" for k in range(K)], "features": features}
    assert (await client.post("/models", json=body)).status_code == 201
    async with environment(Server((), (), store_url, 0)) as world:
        session = await open_session(world, name)
        await fill(world, session, 4 * BATCH)
        await fold(session)
        assert session.replica.round_count == 4 * BATCH
        answer = await (await open_session(world, name)).predictor.predict(PredictionRequest([0.1] * D, None, False))
        left = await world.store.command("KEYS", keys.block(*session.model.key, "*"))
        assert (await world.store.read_tail(session.model.key, 4 * BATCH - 1, 1)).round_count == 4 * BATCH
    assert answer.rounds_seen == 4 * BATCH
    assert len(left) == 1  # the last one
    model = (await client.get(f"/models/{name}")).json()
    assert model["correct"] == 4 * (BATCH // 3 + 1)


def test_the_store_writes_again_after_filling(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Write the values of the pause, too, and turn appendonly on again."""
    with EmbeddedServer(tmp_path_factory.mktemp("unwritten")) as embedded:
        store = redis.Redis.from_url(embedded.url)
        with unwritten(Server((), (), embedded.url, 0)):
            assert store.config_get("appendonly") == {"appendonly": "no"}
            store.set("filled", 1)
        assert store.config_get("appendonly") == {"appendonly": "yes"}
        assert store.info("persistence")["aof_rewrite_in_progress"] == 0
        store.close()


def test_the_ratio_is_the_median_of_the_turns() -> None:
    """Take the median of ratios, not the ratio of medians: within a turn both have the same machine."""
    short = np.array([[100.0, 1e-5], [10.0, 2e-5], [1.0, 4e-5]])  # rate, busy
    rate, busy = comparison_rows("POST /predict", short * [[1.0, 2.0], [0.5, 2.0], [0.95, 2.0]], short)
    assert rate.ratio == pytest.approx(0.95)
    assert rate.met
    assert (rate.figure, rate.baseline) == ("5 /s", "10 /s")
    assert busy.ratio == pytest.approx(2.0)
    assert (busy.what, busy.figure, busy.baseline) == ("POST /predict, worker and store", "40 µs", "20 µs")
    assert not busy.wanted
