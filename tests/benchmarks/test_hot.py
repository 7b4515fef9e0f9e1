"""The load on one model that several workers serve."""

import httpx2

from benchmarks.measurements.hot import MODEL, play
from benchmarks.server import Server
from benchmarks.traffic import create_model
from tests.service.wager import Wager


async def test_every_decision_is_played_to_its_end(live: Wager) -> None:
    """Play a prediction and its feedback for each context, by two clients that share the contexts."""
    server = Server((live.port, live.port), (), "", 0)
    create_model(server, MODEL, algorithm="gaptron")
    await play(server, 90, seed=1)
    model = httpx2.get(f"http://127.0.0.1:{live.port}/models/{MODEL}").json()
    assert model["predictions"] == model["rounds_seen"] == 90
    assert 0 < model["correct"] < 90
