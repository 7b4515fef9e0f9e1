"""The laws of long computations in a running service: others go on, a deletion ends them, and so does a stop."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from tests.service.wager import Wager, serve

K, D = 40, 40
"""FOLKLORE takes some 100 ms for an update at this size."""

ROUNDS = 200


def heavy_model(client: httpx2.Client, name: str) -> None:
    """A model with a log that takes many seconds to fold, of which nothing is folded yet."""
    labels = [str(k) for k in range(K)]
    features, learner = {"kind": "dense", "size": D}, {"algorithm": "folklore"}
    client.post("/models", json={"name": name, "labels": labels, "features": features, "learner": learner})
    contexts: list[list[float]] = np.random.default_rng(1).normal(size=(ROUNDS, D)).tolist()
    made = client.post("/predict/batch", json={"model": name, "contexts": contexts}).json()["predictions"]
    said: list[dict[str, Any]] = [{"prediction_id": each["prediction_id"], "true_label": "7"} for each in made]
    assert {each["status"] for each in client.post("/feedback/batch", json={"feedback": said}).json()["results"]} == {
        "recorded"
    }


def cpu_seconds(wager: Wager) -> float:
    """Processor time that the service's process has taken."""
    fields = Path(f"/proc/{wager.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_a_stop_waits_for_no_fold(tmp_path: Path) -> None:
    """SIGTERM ends the service within its grace, in the middle of a fold that would take much longer, with code 0."""
    with (
        serve(tmp_path, WAGER_GRACEFUL_SHUTDOWN_SECONDS="1") as wager,
        httpx2.Client(base_url=wager.url, timeout=60.0) as client,
    ):
        heavy_model(client, "heavy")
        began = time.monotonic()
        assert wager.stop(within=30.0) == 0
        assert time.monotonic() - began < 1.0 + 3.0


def test_a_deletion_ends_a_fold(live: Wager) -> None:
    """What is still to be folded of a deleted model costs nothing; a request that waits for it gets a 404."""
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        heavy_model(client, "heavy")
        asked = {"model": "heavy", "context": [1.0] * D}

        async def delete_while_it_folds() -> httpx2.Response:
            async with httpx2.AsyncClient(base_url=live.url, timeout=60.0) as two:
                waiting = asyncio.create_task(two.post("/predict", json=asked))
                await asyncio.sleep(0.3)
                assert not waiting.done()
                assert (await two.delete("/models/heavy")).status_code == 204
                return await waiting

        assert asyncio.run(delete_while_it_folds()).status_code == 404
        before = cpu_seconds(live)
        time.sleep(1.0)
        assert cpu_seconds(live) - before < 0.5
