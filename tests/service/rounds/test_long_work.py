"""The laws of long computations in a running service: a deletion or a stop ends them."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from tests.service.wager import Wager, serve

K, D = 40, 40
"""FOLKLORE takes about 100 ms per update at this size."""

ROUNDS = 200


def heavy_model(client: httpx2.Client, name: str) -> None:
    """Create a model whose log takes many seconds to fold, with nothing folded yet."""
    features, learner = {"kind": "dense", "size": D}, {"algorithm": "folklore"}
    labels = [str(k) for k in range(K)]
    client.post("/models", json={"name": name, "labels": labels, "features": features, "learner": learner})
    contexts: list[list[float]] = np.random.default_rng(1).normal(size=(ROUNDS, D)).tolist()
    made = client.post("/predict/batch", json={"model": name, "contexts": contexts}).json()["predictions"]
    feedback: list[dict[str, Any]] = [{"prediction_id": each["prediction_id"], "true_label": "7"} for each in made]
    results = client.post("/feedback/batch", json={"feedback": feedback}).json()["results"]
    assert {each["status"] for each in results} == {"recorded"}


def cpu_seconds(wager: Wager) -> float:
    fields = Path(f"/proc/{wager.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def idle_within(wager: Wager, seconds: float) -> bool:
    """Check that the service uses less than half a core in one of the next seconds: it compiles after its start."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = cpu_seconds(wager)
        time.sleep(1.0)
        if cpu_seconds(wager) - before < 0.5:
            return True
    return False


def test_a_deletion_and_a_stop_end_a_fold(tmp_path: Path) -> None:
    """The waiting request of a deleted model gets a 404; SIGTERM ends the service within its grace period."""
    with (
        serve(tmp_path, WAGER_GRACEFUL_SHUTDOWN_SECONDS="1") as wager,
        httpx2.Client(base_url=wager.url, timeout=60.0) as client,
    ):
        heavy_model(client, "heavy")

        async def delete_while_it_folds() -> httpx2.Response:
            async with httpx2.AsyncClient(base_url=wager.url, timeout=60.0) as two:
                waiting = asyncio.create_task(two.post("/predict", json={"model": "heavy", "context": [1.0] * D}))
                await asyncio.sleep(0.3)
                assert not waiting.done()
                assert (await two.delete("/models/heavy")).status_code == 204
                return await waiting

        assert asyncio.run(delete_while_it_folds()).status_code == 404
        assert idle_within(wager, seconds=8.0)  # the fold would take 20
        heavy_model(client, "another")
        began = time.monotonic()
        assert wager.stop(within=30.0) == 0
        assert time.monotonic() - began < 1.0 + 3.0
