"""The laws of what an event may lose, where docs/reference/durability.md names this file.

A loss is never silent: what the store has lost is absent for every worker, and nothing takes its place.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.store import keys
from service.store.embedded.server import EmbeddedServer
from tests.chaos.faults.clocks import HOUR, FakeClock, clear_shared_memory, refused_clocks
from tests.chaos.faults.disk import SlowDisk, has_written
from tests.chaos.faults.power import Power
from tests.servers import raw, wait_until
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.operations.test_restarts import Load, logged
from tests.service.sample_models import UNIFORM, definition
from tests.service.wager import serve
from tests.service.workers import worker
from tests.store_servers import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills processes that end with others")
FLUSHED, UNFLUSHED = 40, 20
"""Rounds that the store has flushed to the disk if it flushes at all, and further ones."""

A_FLUSH = 200_000
"""Microseconds that a write takes on a slow disk; a flush takes two seconds."""


def test_a_killed_supervisor_loses_nothing(tmp_path: Path) -> None:
    """Its workers and its store end with it; the next service on its data has all acknowledged feedback."""
    with serve(tmp_path, workers=2) as wager:
        httpx2.post(f"{wager.url}/models", json=definition("forest", learner=UNIFORM)).raise_for_status()
        own = [*wager.worker_pids(), wager.store_pid()]
        with Load(wager.url) as load:
            wager.signal(signal.SIGKILL)
            wait_until(lambda: not any(map(is_running, own)))
        assert len(load.acknowledged) > 0
    with serve(tmp_path) as again:
        assert load.acknowledged - set(logged(again.url)) == set()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def learn(api: Api, first: int, n: int) -> list[str]:
    """Add rounds with numbered ids; return the ids of those whose feedback was acknowledged."""
    acknowledged = []
    for number in range(first, first + n):
        made = body_of(await api.predict(prediction_id=f"p{number}"), 200)["prediction_id"]
        body_of(await api.judge(made, correct=True), 200)
        acknowledged.append(made)
    return acknowledged


async def logged_after_a_start(store: Server, url: str) -> list[str]:
    """Start a store again; return the ids of the rounds that it has, none if it has no model."""
    store.start()
    wait_until(store.answers)
    async with worker(url) as client:
        answer = await client.get("/models/forest/rounds", params={"limit": 1000})
    return [json.loads(line)["prediction_id"] for line in answer.text.splitlines() if answer.status_code == 200]


LOST_AT_MOST: dict[str, tuple[int, int]] = {
    "always": (0, 0),
    "everysec": (0, UNFLUSHED),
    "no": (FLUSHED + UNFLUSHED, FLUSHED + UNFLUSHED),
}
"""The least and the most rounds that a power loss loses, by `appendfsync`."""


@pytest.mark.parametrize("appendfsync", LOST_AT_MOST)
async def test_a_power_loss_loses_what_was_not_flushed(tmp_path: Path, appendfsync: str) -> None:
    """With `always` that is nothing, with `everysec` the end, and with `no` everything. The log has no gap."""
    power, data = Power(tmp_path), tmp_path / "data"
    if power.refused:
        pytest.skip(power.refused)
    with Server(data, environment=power.environment(), appendfsync=appendfsync).start().ended() as store:
        wait_until(store.answers)
        url = f"redis://127.0.0.1:{store.port}"
        async with worker(url) as client:
            api = Api(client, "", "forest")
            body_of(await api.create(learner=UNIFORM), 201)
            acknowledged = await learn(api, 0, FLUSHED)
            if appendfsync == "everysec":
                await asyncio.to_thread(wait_until, lambda: has_written(store) and power.has_flushed(data))
            acknowledged += await learn(api, FLUSHED, UNFLUSHED)
        power.fail(store, data)
        kept = await logged_after_a_start(store, url)
    least, most = LOST_AT_MOST[appendfsync]
    assert least <= len(acknowledged) - len(kept) <= most
    assert kept == acknowledged[: len(kept)]


@pytest.mark.skipif(bool(SlowDisk.try_compiler()), reason=SlowDisk.try_compiler())
async def test_a_kill_during_a_flush_loses_what_was_not_written(tmp_path: Path) -> None:
    """With `everysec`, a store acknowledges during a flush what it has not yet passed to the system."""
    slow, data = SlowDisk(tmp_path), tmp_path / "data"
    with Server(data, environment=slow.environment(), appendfsync="everysec").start().ended() as store:
        wait_until(store.answers)
        url = f"redis://127.0.0.1:{store.port}"
        async with worker(url) as client:
            api = Api(client, "", "forest")
            body_of(await api.create(learner=UNIFORM), 201)
            acknowledged = await learn(api, 0, FLUSHED)
            await asyncio.to_thread(wait_until, lambda: has_written(store))
            slow.turn(A_FLUSH)
            while not store.send("INFO", "persistence")["aof_buffer_length"]:
                acknowledged += await learn(api, len(acknowledged), 1)
            store.kill()
        slow.turn(0)
        kept = await logged_after_a_start(store, url)
    assert FLUSHED <= len(kept) < len(acknowledged)
    assert kept == acknowledged[: len(kept)]


@pytest.mark.skipif(bool(refused_clocks()), reason=refused_clocks())
async def test_a_clock_of_the_store_far_ahead_forgets_open_predictions(tmp_path: Path) -> None:
    """Those of less than its jump, with their hour; rounds stay. When it goes back, they do not return."""
    clock, window = FakeClock(tmp_path, "the store"), 60.0
    with Server(tmp_path / "data", environment=clock.environment()).start().ended() as store:
        wait_until(store.answers)
        async with worker(f"redis://127.0.0.1:{store.port}") as client:
            brief, long = Api(client, "", "brief"), Api(client, "", "long")
            for api, seconds in ((brief, window), (long, 10 * HOUR)):
                body_of(await api.create(learner=UNIFORM, window_seconds=seconds), 201)
            await learn(brief, 0, 5)
            waiting = [body_of(await api.predict(), 200)["prediction_id"] for api in (brief, long)]
            for jump in (2 * HOUR, 0):
                clock.turn(jump)
                wait_until(lambda: abs(store.send("TIME")[0] - time.time() - jump) < HOUR / 60)  # noqa: B023 - at once
            problem_of(await brief.judge(waiting[0], correct=True), 404, "prediction-not-found", "prediction_id")
            body_of(await long.judge(waiting[1], correct=True), 200)
            assert len(await brief.rounds()) == 5
    clear_shared_memory()


async def test_an_emptied_store_has_no_model_again(tmp_path: Path) -> None:
    """After FLUSHALL, no worker answers from its memory, or writes it back; a new model of the name knows nothing."""
    with EmbeddedServer(tmp_path) as server:
        async with worker(server.url) as client:
            api = Api(client, "", "forest")
            body_of(await api.create(), 201)
            await learn(api, 0, 5)
            waiting = body_of(await api.predict(), 200)["prediction_id"]
            with raw(server.url) as store:
                store.flushall()
            problem_of(await api.predict(), 404, "model-not-found", "model")
            problem_of(await api.judge(waiting, correct=True), 404, "model-not-found", "prediction_id")
            assert body_of(await api.get("/models"), 200)["models"] == []
            body_of(await api.create(), 201)
            assert body_of(await api.predict(), 200)["rounds_seen"] == 0
        with raw(server.url) as store:
            assert list(store.scan_iter("*:snapshot")) == []


EVICTED = {"log": (500, 200), "model": (404, 404), "prediction": (404, 200)}
"""What feedback and a further prediction get after the eviction of a key. The worker still has the state."""


@pytest.mark.parametrize("what", EVICTED)
async def test_feedback_is_not_acknowledged_in_place_of_an_evicted_key(tmp_path: Path, what: str) -> None:
    with EmbeddedServer(tmp_path) as server:
        async with worker(server.url) as client:
            api = Api(client, "", "forest")
            body_of(await api.create(), 201)
            await learn(api, 0, 5)
            waiting = body_of(await api.predict(prediction_id="open"), 200)["prediction_id"]
            with raw(server.url) as store:
                evict(store, what)
            answers = await api.judge(waiting, correct=True), await api.predict()
            assert tuple(each.status_code for each in answers) == EVICTED[what]


def evict(store: Any, what: str) -> None:
    (incarnation,) = store.hmget(keys.model("forest"), "incarnation")
    key = ("forest", incarnation.decode())
    of = {"log": keys.log(*key), "model": keys.model("forest"), "prediction": keys.block(*key, "open")}
    assert store.delete(of[what]) == 1
