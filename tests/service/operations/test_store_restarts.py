"""The laws of a killed, stopped or restarted embedded store: nothing acknowledged is lost."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.servers import wait_until
from tests.service.operations.test_store_down import X
from tests.service.sample_models import GAPTRON, definition, replay, some_contexts
from tests.service.wager import Wager, serve

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


# --- real processes


class Ledger:
    """A client's record of acknowledged feedback."""

    def __init__(self, wager: Wager) -> None:
        self._wager = wager
        self.outcomes: dict[str, bool] = {}

    def play(self, n: int, seed: int) -> None:
        """Play n rounds, and repeat each request until it is acknowledged."""
        with httpx2.Client(base_url=self._wager.url, timeout=30.0) as client:
            for i, context in enumerate(some_contexts(seed, n)):
                prediction = {"model": "forest", "context": context, "prediction_id": f"{seed}-{i}"}
                prediction_id = self._until_acknowledged(client, "/predict", prediction)["prediction_id"]
                feedback = {"prediction_id": prediction_id, "correct": i % 3 > 0}
                self.outcomes[prediction_id] = self._until_acknowledged(client, "/feedback", feedback)["correct"]

    def _until_acknowledged(self, client: httpx2.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answers: list[httpx2.Response] = []

        def acknowledged() -> bool:
            answers.append(client.post(path, json=body))
            assert answers[-1].status_code in {200, 503}, answers[-1].text
            return answers[-1].status_code == 200

        wait_until(acknowledged)
        answer: dict[str, Any] = answers[-1].json()
        return answer

    def check(self) -> None:
        """Check that the log is exactly what was acknowledged, and that its propensities replay to the bit."""
        with httpx2.Client(base_url=self._wager.url, timeout=30.0) as client:
            log = client.get("/models/forest/rounds", params={"limit": 10_000}).text
            played = replay(client.get("/models/forest").json(), log)
        lines = [json.loads(line) for line in log.splitlines()]
        assert len(played.states) - 1 == len(lines) == len(self.outcomes)
        assert {line["prediction_id"]: line["correct"] for line in lines} == self.outcomes


@pytest.fixture
def ledger(live: Wager) -> Ledger:
    """Create a model in a live service, and return a record of what the service acknowledges."""
    httpx2.post(f"{live.url}/models", json=definition("forest", learner=GAPTRON)).raise_for_status()
    return Ledger(live)


@ON_LINUX
def test_a_killed_store_restarts_and_loses_nothing(live: Wager, ledger: Ledger) -> None:
    """After `kill -9` of the embedded store under traffic, the service resumes, and every round counts once."""
    for kill in range(3):
        ledger.play(30, seed=kill)
        os.kill(live.store_pid(), signal.SIGKILL)
    ledger.play(30, seed=3)
    assert len(ledger.outcomes) == 120
    ledger.check()


def test_stop_and_start_lose_nothing(tmp_path: Path) -> None:
    """A service restarted on the same data directory has every model, round and open prediction."""
    with serve(tmp_path) as first:
        httpx2.post(f"{first.url}/models", json=definition("forest", learner=GAPTRON)).raise_for_status()
        ledger = Ledger(first)
        ledger.play(40, seed=1)
        prediction = {"model": "forest", "context": X, "prediction_id": "open"}
        before = httpx2.post(f"{first.url}/predict", json=prediction).json()
        model = httpx2.get(f"{first.url}/models/forest").json()
        assert first.stop() == 0
    with serve(tmp_path) as second:
        assert httpx2.get(f"{second.url}/models/forest").json() == model
        assert httpx2.post(f"{second.url}/predict", json=prediction).json() == before
        feedback = {"prediction_id": "forest:open", "correct": False}
        assert httpx2.post(f"{second.url}/feedback", json=feedback).json()["round"] == 41
