"""The laws of `wager demo`: the model follows the visitors, and the command outlives the service."""

import asyncio
import itertools
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from service import kernels
from service.__main__ import app
from service.app import create_app
from service.compute import Compute
from service.environment import Environment
from service.settings import Settings
from service.store.capabilities import Store
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from tests.servers import free_port, wait_until
from tests.service.rounds.clicks import close_expired
from tests.service.threads import Served, in_thread
from tests.service.workers import Clock, numbered
from toolkit import demo, visitors
from toolkit.remote import RemoteError
from toolkit.visitors import DEFINITION, HEADLINES, NAME, Site

KEY = "wk_000000000000_" + "0" * 64


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with EmbeddedServer(tmp_path_factory.mktemp("live")) as server, in_thread(server.url) as served:
        yield served


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "DEFAULT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def no_model(live: Served) -> None:
    httpx2.delete(f"{live.url}/models/{NAME}")


class Time(Clock):
    """Time that passes only while the site sleeps; windows close as the seconds pass."""

    def __init__(self, store_url: str) -> None:
        super().__init__()
        self._store_url = store_url

    def sleep(self, seconds: float) -> None:
        before = self.now
        self.now += seconds
        if int(self.now) > int(before):
            asyncio.run(self._close())

    async def _close(self) -> None:
        store = RedisStore(self._store_url, timeout=10.0)
        await close_expired(store, self)
        await store.close()


@pytest.fixture
def clock(store_url: str) -> Time:
    return Time(store_url)


@pytest.fixture
def site(store_url: str, clock: Time, name: str) -> Iterator[Site]:
    """Open the site at a worker whose time passes only while the site sleeps."""

    def environment(store: Store, compute: Compute) -> Environment:
        rng, new_id = np.random.default_rng(1), numbered(name)
        return Environment(store, compute, clock, rng, new_id, store_offset=lambda: clock() - time.time())

    own = Settings(store_url=store_url, host="127.0.0.1", store_timeout_seconds=10.0)
    with TestClient(create_app(own, environment), base_url="http://localhost") as client:
        assert demo.open_model(client)
        yield Site(client, random.Random(1), clock)
        client.delete(f"/models/{NAME}")


def test_the_model_follows_the_favourite(site: Site, clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "CHANGE_SECONDS", 30.0)
    said = list[str]()
    demo.play(site, 40.0, 60.0, said.append, clock, clock.sleep)
    shares = [int(share) for share in re.findall(r"(\d+)% +\d+% +\d+%$", "\n".join(said), re.MULTILINE)]
    assert len(shares) == 12
    assert (shares[5] > 80, shares[6] < 70, shares[-1] > 80) == (True, True, True), shares
    assert [line.split()[1] for line in said if "is the favourite now" in line] == list(HEADLINES[1:])[: site.changes]
    assert site.chosen.click_rate > 1.3 * site.holdout.click_rate
    assert site.chosen.visitors + site.holdout.visitors == pytest.approx(40 * 60, abs=8)


def test_clicks_that_an_outage_held_up_are_ignored(site: Site, clock: Time) -> None:
    site.welcome(100)
    clock.sleep(60.0)
    site.report_clicks()
    demo.play(site, 10.0, 63.0, str, clock, clock.sleep)
    assert site.chosen.visitors + site.holdout.visitors > 120


class Away:
    """A service that does not answer for a while, or needs some seconds for each answer, and its visitors' time."""

    def __init__(self, live: Served, away: range = range(0), seconds: float = 0.0) -> None:
        self._steps, self._away, self._url, self._seconds = 0, away, live.url, seconds
        self.now = 0.0
        self.client = httpx2.Client(base_url=live.url, transport=httpx2.MockTransport(self._answer))

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now, self._steps = self.now + seconds, self._steps + 1

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if self._steps in self._away:
            raise httpx2.ConnectError("refused")
        self.now += self._seconds
        answer = httpx2.post(self._url + request.url.path, json=json.loads(request.content), verify=False)
        return httpx2.Response(answer.status_code, json=answer.json())


@pytest.mark.usefixtures("no_model")
def test_visitors_wait_for_a_service_that_is_away(live: Served) -> None:
    said = list[str]()
    httpx2.post(f"{live.url}/models", json=DEFINITION).raise_for_status()
    away = Away(live, range(20, 40))
    site = Site(away.client, random.Random(1), away.clock)
    demo.play(site, 10.0, 30.0, said.append, away.clock, away.sleep)
    outage = [line for line in said if line.startswith("The service")]
    assert [re.sub(r" \(.*\)$", "", line) for line in outage] == [
        "The service does not answer, so the visitors wait.",
        "The service answers again, after 11 s.",
    ]
    answered = httpx2.get(f"{live.url}/models/{NAME}").json()["predictions"]
    assert site.chosen.visitors + site.holdout.visitors == answered
    assert 180 <= answered <= 210  # those who came during the outage have left


@pytest.mark.usefixtures("no_model")
def test_visitors_leave_a_slow_service(live: Served) -> None:
    httpx2.post(f"{live.url}/models", json=DEFINITION).raise_for_status()
    slow = Away(live, seconds=10.0)
    site = Site(slow.client, random.Random(1), slow.clock)
    demo.play(site, 10.0, 100.0, str, slow.clock, slow.sleep)
    assert 0 < site.chosen.visitors + site.holdout.visitors <= 100  # at most those of one second in ten


@pytest.mark.usefixtures("no_model")
def test_a_deleted_model_ends_the_demonstration(live: Served) -> None:
    away = Away(live)
    with pytest.raises(RemoteError, match=NAME):
        demo.play(Site(away.client, random.Random(1), away.clock), 10.0, 9.0, str, away.clock, away.sleep)


@pytest.mark.usefixtures("no_model")
def test_a_second_run_goes_on_with_the_model(live: Served) -> None:
    printed = [run("--url", url, "--seconds", "1").stdout for url in (live.url, f"{live.url}/")]
    assert ["The model of an earlier run goes on." in each for each in printed] == [False, True]
    for each in printed:
        assert f"Watch it: {live.url}/#/models/{NAME}\n" in each
        assert re.search(r"\d+ visitors in 1 s; the favourite changed 0 times\.", each), each
    commands = {found for each in printed for found in re.findall(r"Delete it with: (curl .*)\n", each)}
    (command,) = commands
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert httpx2.get(f"{live.url}/models/{NAME}").status_code == 404


@pytest.mark.usefixtures("no_model")
def test_the_key_is_not_printed(live: Served) -> None:
    printed = run("--url", live.url, "--seconds", "1", "--api-key", KEY).output
    assert (KEY in printed, '-H "X-API-Key: $WAGER_API_KEY"' in printed) == (False, True)


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    "other",
    [
        {"labels": ["a", "b"]},
        {"features": {"kind": "dense", "size": 2}},
        {"learner": "squarecb"},
        {"learner": "fastcb"},
        {"mode": "logging"},
        {"reward": "accuracy"},
    ],
    ids=str,
)
def test_a_model_of_another_kind_stays_as_it_is(live: Served, other: dict[str, Any]) -> None:
    httpx2.post(f"{live.url}/models", json=DEFINITION | other).raise_for_status()
    result = run("--url", live.url, "--seconds", "1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"wager: the service has a model {NAME} that is not from this command; it stays as it is\n"
    assert httpx2.get(f"{live.url}/models/{NAME}").json()["predictions"] == 0


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handle SIGINT, so that child processes do too: background jobs of a shell ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("no_model", "interruptible")
def test_it_ends_at_control_c_with_a_summary(live: Served) -> None:
    command = [sys.executable, "-m", "service", "demo", "--url", live.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: httpx2.get(f"{live.url}/models/{NAME}").json().get("predictions", 0) > 0)
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert len(re.findall("visitors in", printed)) == 1


def test_the_demo_starts_a_service_and_leaves_nothing(tmp_path: Path) -> None:
    result = run("--seconds", "1")
    assert result.exit_code == 0, result.output
    found = re.search(r"Started a service for this demonstration: (http:\S+)\n", result.stdout)
    assert found, result.stdout
    assert "visitors in" in result.stdout
    assert "curl" not in result.stdout  # the model is gone
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(found[1])


@pytest.mark.usefixtures("no_model")
def test_it_waits_for_a_service_that_is_starting(live: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """On its first start, a service is alive while it compiles, and ready later."""
    answers = itertools.chain([False, False], itertools.repeat(True))
    monkeypatch.setattr(kernels, "is_default_ready", lambda: next(answers))
    monkeypatch.setattr(demo, "DEFAULT_URL", live.url)
    result = run("--seconds", "1")
    assert result.exit_code == 0, result.output
    assert f"Watch it: {live.url}/" in result.stdout
    assert "Started a service" not in result.stdout


def test_an_unreachable_service_is_named() -> None:
    result = run("--url", demo.DEFAULT_URL)
    assert result.exit_code == 1
    assert result.stderr == f"wager: no service answers at {demo.DEFAULT_URL}\n"


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["demo", *options])
