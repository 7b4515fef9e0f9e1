"""A client that keeps predictions open up to the maximum of their bytes: the service counts them exactly."""

import asyncio
import contextlib
from typing import Any, ClassVar

import httpx2
import numpy as np

from tests.chaos.clients import Clients, connect, patient
from tests.chaos.logged import read
from tests.service.metrics import parsed, value
from tests.service.sample_models import UNIFORM, definition

MODEL = "hoard"
SIZE = 40_000
"""Features: a prediction is large, so that few reach the maximum."""

MAXIMUM = 32 * 2**20
"""`WAGER_MAX_OPEN_BYTES`."""

PAUSE = 0.3
"""Seconds between two turns after the maximum has been reached."""

_FULL = "urn:wager:problem:open-predictions-full"
_UNKNOWN = frozenset({503, 507})


class Hoarders(Clients):
    """One client that predicts until it is refused, and then judges some predictions, again and again."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": UNIFORM}
    count = 1

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 12])
        self.open: list[str] = []
        self.each, self.refused = 0.0, 0
        self.wrong: list[str] = []

    def definition(self) -> dict[str, Any]:
        """Return the definition of the model. Its log keeps few rounds, because they are large."""
        features = {"kind": "dense", "size": SIZE, "norm": "none", "intercept": False}
        return definition(MODEL, features=features, retain_rounds=0, **self.policies)

    async def create_model(self) -> None:
        """Create the model, and learn what a prediction takes."""
        await super().create_model()
        async with connect(self._url, timeout=30.0) as client:
            await self._predict(client, "first")
            self.each = await _open_bytes(client)

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        if await self._predict(client, own):
            return
        await asyncio.sleep(PAUSE)
        for _ in range(int(rng.integers(1, 4))):
            if self.open:
                await self._judge(client, self.open.pop(int(rng.integers(len(self.open)))))

    async def _predict(self, client: httpx2.AsyncClient, own: str) -> bool:
        """Make a prediction; return False if there is no room for it."""
        body = {"model": MODEL, "context": [0] * SIZE, "prediction_id": own}
        answer = await _send(client, "/predict", body)
        has_room = answer.status_code == 200
        if has_room:
            self.open.append(own)
        else:
            self.refused += 1
            self.refuse(answer)
        return has_room

    def refuse(self, answer: httpx2.Response) -> None:
        """Check that a prediction was refused because it would have exceeded the maximum."""
        if answer.status_code != 429 or _FULL not in answer.text:
            self.wrong.append(f"a hoarder got {answer.status_code}: {answer.text}")
        elif (len(self.open) + 1) * self.each <= MAXIMUM:
            self.wrong.append(f"a prediction was refused beside {len(self.open)} of {self.each:g} bytes")

    async def _judge(self, client: httpx2.AsyncClient, own: str) -> None:
        answer = await _send(client, "/feedback", {"prediction_id": f"{MODEL}:{own}", "correct": True})
        if answer.status_code != 200:
            self.wrong.append(f"feedback of a hoarder got {answer.status_code}: {answer.text}")

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Fill the model to its maximum, and empty it; return what is wrong with the count of bytes, as sentences."""
        wrong, number = [self.count_violation(await _open_bytes(client))], 0
        while await self._predict(client, f"last-{number}"):
            number += 1
        wrong.append(self.count_violation(await _open_bytes(client)))
        while self.open:
            await self._judge(client, self.open.pop())
        wrong.append(self.count_violation(await _open_bytes(client)))
        return [*self.wrong, *filter(None, wrong)]

    def count_violation(self, counted: float) -> str:
        """Return a sentence if the service miscounts the bytes of open predictions; else an empty text."""
        expected = len(self.open) * self.each
        if counted == expected <= MAXIMUM and self.each:
            return ""
        return f"{counted:g} bytes are counted, not the {expected:g} of {len(self.open)} open predictions"


async def _send(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> httpx2.Response:
    """Send a request until its effect is known."""
    async with patient(path):
        while True:
            try:
                answer = await client.post(path, json=body)
            except httpx2.TransportError:
                pass
            else:
                if answer.status_code not in _UNKNOWN:
                    return answer
            await asyncio.sleep(0.02)


async def _open_bytes(client: httpx2.AsyncClient) -> float:
    """Return the bytes of open predictions that the service counts. It omits them while the store is unavailable."""
    async with patient("/metrics"):
        while True:
            samples = parsed((await read(client, "/metrics")).text)
            with contextlib.suppress(KeyError):
                return value(samples, "wager_open_predictions_bytes", model=MODEL)
            await asyncio.sleep(0.1)
