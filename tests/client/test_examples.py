"""The laws of the examples: each runs, and shows what it says."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import ab_test
import headlines
import intents
import recommendations
from service.app import create_app
from service.compute import Compute
from service.environment import Environment
from service.settings import Settings
from service.store.capabilities import Store
from tests.service import wager as server
from tests.service.workers import START, numbered
from wager_client import Wager

ROOT = Path(__file__).parents[2]

EXAMPLES = ROOT / "examples"


class WaitingClock:
    """A clock that runs only while the example waits: on a slow machine, no window closes before its clicks arrive."""

    def __init__(self) -> None:
        self._waited = 0.0
        self._since: float | None = None

    def __call__(self) -> float:
        return START + self._waited + (0.0 if self._since is None else time.monotonic() - self._since)

    def sleep(self, seconds: float) -> None:
        self._since = time.monotonic()
        time.sleep(seconds)
        self._waited, self._since = self() - START, None


@pytest.fixture
def clock() -> WaitingClock:
    return WaitingClock()


@pytest.fixture
def wager(store_url: str, clock: WaitingClock) -> Iterator[Wager]:
    def environment(store: Store, compute: Compute) -> Environment:
        rng, new_id = np.random.default_rng(1), numbered("e")
        return Environment(store, compute, clock, rng, new_id, store_offset=lambda: clock() - time.time())

    app = create_app(Settings(store_url=store_url, host="127.0.0.1", store_timeout_seconds=10.0), environment)
    with TestClient(app, base_url="http://localhost") as http:
        yield Wager("http://localhost", timeout=60.0, max_retries=0, http_client=http)


def test_headlines_follow_the_clicks(wager: Wager, clock: WaitingClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headlines, "time", clock)
    phases = headlines.run(wager, 2_400, 1)
    assert phases[headlines.VIDEO_FROM - 1].shown.most_common(1)[0][0] == "number"
    assert phases[-1].shown.most_common(1)[0][0] == "video"
    assert all("plain" not in phase.shown for phase in phases[headlines.VIDEO_FROM :])


def test_texts_reach_the_right_team(wager: Wager, capsys: pytest.CaptureFixture[str]) -> None:
    curve = intents.run(wager, 300, 1)
    assert sum(curve[-3:]) / 3 > 0.45
    assert "speaks for" in capsys.readouterr().out


def test_products_find_their_buyers(wager: Wager) -> None:
    sales = recommendations.run(wager, 200, 1)
    assert sum(sales.by_quarter[2:]) / 2 > 1.5 * sales.expected_at_random


def test_the_uplift_has_an_interval(wager: Wager) -> None:
    found = ab_test.run(wager, 350, 1)
    assert 0 < found.rule < 1
    assert 0 < found.low < found.model - found.rule < found.high


def test_the_javascript_example_runs(running: server.Wager, node: str) -> None:
    command = [node, str(Path("examples", "javascript", "headlines.mjs")), running.url, "200"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    first, wrong, away = done.stdout.splitlines()
    assert first.startswith('shown in the second half: {"plain":')
    assert wrong == "a wrong context: wrong-type in context"
    assert away == "without a service: plain, 1 ignored"


def test_the_guide_lists_every_example() -> None:
    """examples/README.md links each file."""
    text = (EXAMPLES / "README.md").read_text()
    found = [path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".mjs")]
    files = {name for name in found if "node_modules/" not in name}
    assert {name for name in files if f"]({name})" in text} == files
