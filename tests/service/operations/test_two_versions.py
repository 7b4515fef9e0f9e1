"""The laws of two versions on one store, as in a rolling upgrade: the older one refuses what it cannot read."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.replicas.statistics import STATISTICS_VERSION
from service.store import keys
from service.store.embedded.server import EmbeddedServer
from service.store.redis.snapshot_parts import SNAPSHOT_VERSION
from tests.servers import dump, raw, wait_until
from tests.service.metrics import Samples, parsed, value
from tests.service.sample_models import definition, replay, some_contexts
from tests.service.threads import in_thread
from tests.service.wager import serve

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts processes that end with this one")
NEWER = "tests.service.operations.next_version"
BATCH, BATCHES = 400, 3  # enough rounds for a snapshot
ROUNDS = BATCH * BATCHES
X = [0.6, 0.8, 0.0]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with EmbeddedServer(tmp_path_factory.mktemp("store")) as server:
        yield server.url


@contextmanager
def worker(url: str, folder: Path | None = None) -> Iterator[httpx2.Client]:
    """Start a worker on the store, of the newer version in a process with this folder; yield its client."""
    started: Any = in_thread(url) if folder is None else serve(folder, module=NEWER, WAGER_STORE_URL=url)
    with started as served, httpx2.Client(base_url=served.url, timeout=300.0) as client:
        yield client


def post(client: httpx2.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def play(client: httpx2.Client, model: str, batches: int, seed: int = 1) -> None:
    for i in range(batches):
        drawn = post(client, "/predict/batch", model=model, contexts=some_contexts(seed + i, BATCH))["predictions"]
        feedback = [{"prediction_id": each["prediction_id"], "correct": n % 3 == 0} for n, each in enumerate(drawn)]
        post(client, "/feedback/batch", feedback=feedback)


def predict(client: httpx2.Client, model: str, own_id: str | None = None) -> Any:
    return client.post(
        "/predict", json={"model": model, "context": X, "prediction_id": own_id, "include_distribution": True}
    )


def judge(client: httpx2.Client, prediction_id: str) -> Any:
    return client.post("/feedback", json={"prediction_id": prediction_id, "correct": True})


def state_of(client: httpx2.Client, model: str) -> tuple[int, list[float]]:
    answer = predict(client, model).json()
    return answer["rounds_seen"], list(answer["distribution"].values())


def replayed(client: httpx2.Client, model: str) -> tuple[int, list[float]]:
    log = client.get(f"/models/{model}/rounds", params={"limit": 10_000}).text
    played = replay(client.get(f"/models/{model}").json(), log, tolerance=1e-12)
    return len(log.splitlines()), played.distribution(X)


def is_newer(answer: httpx2.Response) -> bool:
    return (answer.status_code, answer.json()["type"]) == (503, "urn:wager:problem:newer-version")


def stored(url: str, model: str) -> dict[str, Any]:
    found = {name: content for name, content in dump(url).items() if f"{{{model}}}" in name}
    of_model = found[keys.model(model)]
    return found | {keys.model(model): {k: v for k, v in of_model.items() if not k.startswith("refused:")}}


def is_settled(url: str, model: str) -> bool:
    with raw(url) as store:
        incarnation: Any = store.hget(keys.model(model), "incarnation")
        key = (model, incarnation.decode())
        snapshot: Any = store.hmget(keys.snapshot(*key), "version")
        statistics: Any = store.hmget(keys.statistics(*key), "version", "rounds")
    versions = [SNAPSHOT_VERSION + 1, STATISTICS_VERSION + 1, ROUNDS]
    return [*snapshot, *statistics] == [str(number).encode() for number in versions]


def metrics_of(samples: Samples, model: str) -> set[str]:
    return {metric for metric, labels in samples if ("model", model) in labels}


def test_an_older_worker_changes_no_newer_data(url: str, tmp_path: Path) -> None:
    with worker(url) as older:
        for model in ("shared", "other", "briefly"):
            post(older, "/models", **definition(model))
            assert state_of(older, model)[0] == 0  # the model is open before the newer version writes
        assert predict(older, "briefly", "own").is_success
        with worker(url, tmp_path) as newer:
            assert predict(newer, "briefly", "new").is_success
            assert judge(newer, "briefly:new").is_success
            play(newer, "shared", BATCHES)
            assert predict(newer, "shared", "open").is_success
            assert is_newer(predict(older, "shared"))
            play(older, "other", 1)
            wait_until(lambda: is_settled(url, "shared"), 250.0)
            final = state_of(newer, "shared")
            assert final == replayed(newer, "shared")
        before = stored(url, "shared")
        for _ in range(3):
            assert is_newer(predict(older, "shared"))
            assert is_newer(predict(older, "shared", "open"))
            assert is_newer(judge(older, "shared:open"))
            play(older, "other", 1)
        assert is_newer(predict(older, "briefly"))
        assert judge(older, "briefly:own").json()["status"] == "recorded"
        samples = parsed(older.get("/metrics").text)
        assert value(samples, "wager_folded_rounds_total", model="shared") == ROUNDS
        missing = metrics_of(samples, "other") - metrics_of(samples, "shared")
        assert missing >= {"wager_open_predictions", "wager_labels"}
        assert state_of(older, "other") == replayed(older, "other")
    with worker(url) as older:  # a worker that starts with the newer data
        assert is_newer(predict(older, "shared"))
    assert stored(url, "shared") == before
    with worker(url, tmp_path) as newer:
        assert state_of(newer, "shared") == final
        assert json.loads(newer.get("/models/shared").text)["damaged_rounds"] == 0
        answer = judge(newer, "shared:open").json() | {"prediction_id": ""}
        said = {"correct": True, "reward": 1.0}
        assert answer == {"prediction_id": "", "abstained": False, "status": "recorded", "round": ROUNDS + 1} | said
        assert state_of(newer, "shared") == replayed(newer, "shared")
