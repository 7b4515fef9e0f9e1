"""The laws of expiry in a running service: its own clock closes predictions, also after a restart."""

import json
from pathlib import Path
from typing import Any

import httpx2

from tests.servers import wait_until
from tests.service.operations.test_store_down import X
from tests.service.sample_models import UNIFORM, definition
from tests.service.wager import Wager, serve


def log_of(wager: Wager) -> list[dict[str, Any]]:
    """Return the lines of the log."""
    with httpx2.Client(base_url=wager.url, timeout=30.0) as client:
        return [json.loads(line) for line in client.get("/models/forest/rounds").raise_for_status().text.splitlines()]


def predict(wager: Wager, window: float, n: int) -> None:
    """Create a model with a short window, and make n predictions."""
    body = definition("forest", learner=UNIFORM, on_expiry="incorrect", window_seconds=window)
    with httpx2.Client(base_url=wager.url, timeout=30.0) as client:
        client.post("/models", json=body).raise_for_status()
        client.post("/predict/batch", json={"model": "forest", "contexts": [X] * n}).raise_for_status()


def test_expired_predictions_are_closed_in_time(live: Wager) -> None:
    """Silent predictions become rounds by the service's own clock, soon after their window."""
    predict(live, 0.5, 3)
    wait_until(lambda: len(log_of(live)) == 3)
    assert {(line["outcome"], line["correct"]) for line in log_of(live)} == {("expired", False)}


def test_predictions_that_expire_while_nothing_runs_are_closed(tmp_path: Path) -> None:
    """After a restart, a worker that has loaded no model closes what expired in between."""
    with serve(tmp_path) as wager:
        predict(wager, 2.0, 3)
        assert wager.stop() == 0
    with serve(tmp_path) as wager:
        wait_until(lambda: len(log_of(wager)) == 3)
        assert [line["round"] for line in log_of(wager)] == [1, 2, 3]
