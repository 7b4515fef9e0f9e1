"""Clients that often say nothing, under faults: every silent prediction must become one round, by its expiry."""

import asyncio
import json
from collections import defaultdict
from typing import Any, ClassVar, NamedTuple

import httpx2
import numpy as np

from tests.chaos.clients import Clients, post
from tests.chaos.logged import PAGE
from tests.service.sample_models import SIZE, UNIFORM

MODEL = "clicks"
WINDOW = 2.0
PATIENCE = 120.0
"""Seconds after which every prediction must be closed, although workers may still restart or be of an older version."""


class Said(NamedTuple):
    """What the service confirmed about one prediction."""

    active: bool | None  # None if unknown: the reply to its activation came after the window
    correct: bool | None  # the recorded feedback; None if there is none


class Silence(Clients):
    """Clients that predict, and activate or judge only some of the predictions."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {
        "learner": UNIFORM,
        "window_seconds": WINDOW,
        "on_expiry": "incorrect",
        "learn": "on_arrival",
    }
    count = 2

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 1])
        self._said: dict[str, Said] = {}

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        self._said[own] = await _live(client, own, rng)

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the log once every window has closed, as sentences."""
        wrong = ["the log was never read"]
        try:
            async with asyncio.timeout(PATIENCE):
                while wrong:
                    await asyncio.sleep(0.5)
                    wrong = self._judge(await _outcomes(client))
        except TimeoutError:
            pass
        return wrong

    def _judge(self, logged: dict[str, list[tuple[str, bool]]]) -> list[str]:
        wrong = [f"{own} is in the log, but was never made" for own in logged.keys() - self._said.keys()]
        for own, said in self._said.items():
            found, possible = logged.get(own, []), _possible(said)
            if found not in possible:
                wrong.append(f"{own} has the rounds {found}, but the service confirmed {said}")
        return wrong


def _possible(said: Said) -> list[list[tuple[str, bool]]]:
    """Return the possible rounds of a prediction: outcome and bit of each."""
    expired = [("expired", False)]
    if said.correct is not None:
        return [[("feedback", said.correct)]]
    return [[], expired] if said.active is None else [expired] if said.active else [[]]


async def _live(client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> Said:
    """Make one prediction; activate and judge it, or do not."""
    active, activate, judge, correct = (bool(rng.random() < p) for p in (0.5, 0.5, 0.3, 0.5))
    context: list[float] = rng.normal(size=SIZE).tolist()
    body = {"model": MODEL, "context": context, "prediction_id": own, "activated": active}
    await post(client, "/predict", body)
    known, named = bool(active), {"prediction_id": f"{MODEL}:{own}"}
    if activate and not active:
        answer = await post(client, "/activate", named)
        if "type" in answer:
            return Said(None, None)
        known = True
    if judge:
        answer = await post(client, "/feedback", named | {"correct": correct})
        return Said(known, answer.get("correct"))
    return Said(known, None)


async def _outcomes(client: httpx2.AsyncClient) -> dict[str, list[tuple[str, bool]]]:
    """Return the outcome and the bit of each round, by prediction."""
    logged, after = defaultdict[str, list[tuple[str, bool]]](list), 0
    while True:
        response = await client.get(f"/models/{MODEL}/rounds", params={"after": after, "limit": PAGE})
        lines = [json.loads(line) for line in response.text.splitlines()] if response.status_code == 200 else []
        if not lines:
            return logged
        for line in lines:
            own = line["prediction_id"].removeprefix(f"{MODEL}:")
            logged[own].append((line["outcome"], line["correct"]))
        after = lines[-1]["round"]
