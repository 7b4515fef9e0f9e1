"""The embedded store is killed, stopped and started: nothing acknowledged is lost."""

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
    """A client's own record of what was acknowledged."""

    def __init__(self, wager: Wager) -> None:
        self._wager = wager
        self.outcomes: dict[str, bool] = {}

    def teach(self, n: int, seed: int) -> None:
        """Play n rounds, and repeat each request until it is acknowledged."""
        with httpx2.Client(base_url=self._wager.url, timeout=30.0) as client:
            for i, context in enumerate(some_contexts(seed, n)):
                asked = {"model": "forest", "context": context, "prediction_id": f"{seed}-{i}"}
                prediction_id = self._until_acknowledged(client, "/predict", asked)["prediction_id"]
                said = {"prediction_id": prediction_id, "correct": i % 3 > 0}
                self.outcomes[prediction_id] = self._until_acknowledged(client, "/feedback", said)["correct"]

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
        """Nothing acknowledged is missing from the log or differs from it; propensities replay to the bit."""
        with httpx2.Client(base_url=self._wager.url, timeout=30.0) as client:
            log = client.get("/models/forest/rounds", params={"limit": 10_000}).text
            played = replay(client.get("/models/forest").json(), log)
        lines = [json.loads(line) for line in log.splitlines()]
        assert len(played.states) - 1 == len(lines) == len(self.outcomes)
        assert {line["prediction_id"]: line["correct"] for line in lines} == self.outcomes


@pytest.fixture
def ledger(live: Wager) -> Ledger:
    """A live service with a model, and a record of what it acknowledges."""
    httpx2.post(f"{live.url}/models", json=definition("forest", learner=GAPTRON)).raise_for_status()
    return Ledger(live)


@ON_LINUX
def test_a_killed_store_is_started_again_and_has_lost_nothing(live: Wager, ledger: Ledger) -> None:
    """`kill -9` of the embedded store in the middle of the traffic: service resumes by itself, rounds count once."""
    for kill in range(3):
        ledger.teach(30, seed=kill)
        os.kill(live.store_pid(), signal.SIGKILL)
    ledger.teach(30, seed=3)
    assert len(ledger.outcomes) == 120
    ledger.check()


def test_stop_and_start_lose_nothing(tmp_path: Path) -> None:
    """A service started again on the same data directory has every model, round and open prediction."""
    with serve(tmp_path) as first:
        httpx2.post(f"{first.url}/models", json=definition("forest", learner=GAPTRON)).raise_for_status()
        ledger = Ledger(first)
        ledger.teach(40, seed=1)
        asked = {"model": "forest", "context": X, "prediction_id": "open"}
        before = httpx2.post(f"{first.url}/predict", json=asked).json()
        model = httpx2.get(f"{first.url}/models/forest").json()
        assert first.stop() == 0
    with serve(tmp_path) as second:
        assert httpx2.get(f"{second.url}/models/forest").json() == model
        assert httpx2.post(f"{second.url}/predict", json=asked).json() == before
        said = {"prediction_id": "forest:open", "correct": False}
        assert httpx2.post(f"{second.url}/feedback", json=said).json()["round"] == 41
