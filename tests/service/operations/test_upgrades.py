"""The laws of upgrades: this version continues with the stored data of each release."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service import __version__
from service.replicas.snapshot_policy import SNAPSHOT_AGE
from service.store.embedded.server import EmbeddedServer
from service.store.snapshots.parts import SNAPSHOT_VERSION
from tests.releases import FOLDER, MODELS, ROUNDS, context_of, judge, play, restore
from tests.servers import raw
from tests.service.keyed import bearer
from tests.service.metrics import scrape, value
from tests.service.sample_models import Replay
from tests.service.workers import Clock, worker

RELEASES = sorted(FOLDER.glob("*.json"))
NEW_ROUNDS = 5


@pytest.fixture(params=RELEASES, ids=lambda path: str(path.stem))
def left(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the stored data and recorded answers of a release."""
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


@pytest.fixture
def url(tmp_path: Path, left: dict[str, Any]) -> Iterator[str]:
    """Start a store with the release's data."""
    with EmbeddedServer(tmp_path) as server:
        restore(server.url, left["store"])
        yield server.url


@pytest.mark.skipif(".dev" in __version__, reason="this version is not released")
def test_a_released_version_has_a_data_file() -> None:
    """Each release has a data file, written by `python -m tests.releases` before the release."""
    assert __version__ in {path.stem for path in RELEASES}


@pytest.mark.parametrize("model", MODELS)
async def test_a_released_model_continues(url: str, left: dict[str, Any], model: str) -> None:
    """The API key is valid, the log is unchanged, and the open prediction is unchanged and takes its feedback once."""
    recorded = left["told"]["models"][model]
    async with worker(url, Clock(left["start"]), auth="required") as client:
        client.headers.update(bearer(left["told"]["key"]))
        log = (await client.get(f"/models/{model}/rounds")).text.splitlines()
        new: dict[str, Any] = {
            "outcome": "feedback",
            "actions": None,
            "action_count": None,
            "eligible": None,
            "holdout": False,
        }
        new |= {"changes": 0, "changes_seen": 0}
        rewarded = [line | new | {"reward": float(line["correct"])} for line in recorded["log"]]
        assert [json.loads(line) for line in log] == rewarded
        again = await play(client, model, "open", ROUNDS)
        same = recorded["open"].keys() - {"distribution"}  # later versions answer more
        assert {k: again[k] for k in same} == {k: recorded["open"][k] for k in same}
        assert (await judge(client, model, "open", 0))["round"] == ROUNDS + 1
        assert (await judge(client, model, "open", 0))["status"] == "duplicate"
        assert (await judge(client, model, "p3", 3))["status"] == "duplicate"
        assert (await play(client, model, "new", 3))["rounds_seen"] == ROUNDS + 1


@pytest.mark.parametrize("model", MODELS)
async def test_a_model_keeps_rounds_played_after_the_upgrade(url: str, left: dict[str, Any], model: str) -> None:
    """New rounds, a snapshot and statistics continue those of the release, and the next worker starts from them."""
    clock, total = Clock(left["start"]), ROUNDS + 1 + NEW_ROUNDS
    async with worker(url, clock, auth="required") as client:
        client.headers.update(bearer(left["told"]["key"]))
        await judge(client, model, "open", 0)
        for i in range(NEW_ROUNDS):
            await play(client, model, f"new-{i}", i)
            await judge(client, model, f"new-{i}", i)
        before = await deterministic_answer(client, model)
        await advance_until_kept(client, model, clock)
    with raw(url) as store:
        (found,) = store.scan_iter(f"wager:{{{model}}}:*:snapshot")
        assert store.hmget(found, "version", "rounds") == [str(SNAPSHOT_VERSION).encode(), str(total).encode()]
    async with worker(url, clock, auth="required") as client:
        client.headers.update(bearer(left["told"]["key"]))
        assert await deterministic_answer(client, model) == before
        assert before["rounds_seen"] == total
        samples = await scrape(client)
        for sums in ("propensity", "feedback_delay_seconds", "surprisal_nats"):
            assert value(samples, f"wager_{sums}_count", model=model) == total
        assert value(samples, "wager_uncounted_rounds", model=model) == 0
        assert (await judge(client, model, "new-0", 0))["status"] == "duplicate"


async def deterministic_answer(client: httpx2.AsyncClient, model: str) -> dict[str, Any]:
    """Return the deterministic part of a model's answer to a context, with the distribution if there is one."""
    body = {"model": model, "context": context_of(model, 1), "include_distribution": model != "ranking"}
    answer = (await client.post("/predict", json=body)).json()
    return {name: answer.get(name) for name in ("rounds_seen", "distribution")}


async def advance_until_kept(client: httpx2.AsyncClient, model: str, clock: Clock) -> None:
    """Advance the clock until a snapshot and published statistics cover all rounds."""
    async with asyncio.timeout(60.0):
        while True:
            samples = await scrape(client)
            if all(value(samples, f"wager_{what}_lag_rounds", model=model) == 0 for what in ("snapshot", "fold")):
                return
            clock.now += SNAPSHOT_AGE
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("shadow", ["gaptron", "newtron"])
async def test_rounds_of_a_release_follow_a_promotion(url: str, left: dict[str, Any], shadow: str) -> None:
    """Rounds that the release wrote hold evidence of its learner, of another size; none of them counts as damaged."""
    clock, receipt = Clock(left["start"]), left["told"]["models"]["dense"]
    async with worker(url, clock, auth="required") as client:
        client.headers.update(bearer(left["told"]["key"]))
        put = await client.put("/models/dense/shadows/rival", json={"learner": shadow})
        assert put.status_code == 200, put.text
        done = await client.post("/models/dense/promote", json={"shadow": "rival"}, headers={"If-Match": "*"})
        assert done.status_code == 200, done.text
        assert (await judge(client, "dense", "open", 0))["round"] == ROUNDS + 1
        for i in range(NEW_ROUNDS):
            await play(client, "dense", f"new-{i}", i)
            await judge(client, "dense", f"new-{i}", i)
        model = (await client.get("/models/dense")).json()
        assert (model["learner"]["algorithm"], model["damaged_rounds"]) == (shadow, 0)
        assert model["rounds_seen"] == ROUNDS + 1 + NEW_ROUNDS
        log = [json.loads(line) for line in (await client.get("/models/dense/rounds")).text.splitlines()]
        assert [line["prediction_id"] for line in log][:ROUNDS] == [line["prediction_id"] for line in receipt["log"]]
    async with worker(url, clock, auth="required") as client:
        client.headers.update(bearer(left["told"]["key"]))
        assert (await deterministic_answer(client, "dense"))["rounds_seen"] == ROUNDS + 1 + NEW_ROUNDS


async def test_the_upgraded_state_equals_the_fold_of_the_log(url: str, left: dict[str, Any]) -> None:
    """A model's state, partly from the release's snapshot, equals this version's fold of its whole log."""
    async with worker(url, Clock(left["start"]), auth="required") as client:
        client.headers.update(bearer(left["told"]["key"]))
        replay = Replay((await client.get("/models/dense")).json(), tolerance=1e-12)
        for line in left["told"]["models"]["dense"]["log"]:
            replay.add(line)
        context = [0.3, -0.2, 0.9]
        body = {"model": "dense", "context": context, "include_distribution": True}
        answer = (await client.post("/predict", json=body)).json()
        assert list(answer["distribution"].values()) == pytest.approx(replay.distribution(context), abs=1e-12)
