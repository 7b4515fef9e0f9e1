"""Clients that disconnect in the middle of their requests, of which several are in one group with those of others."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import httpx2
import numpy as np

from tests.chaos.clients import connect, state_violations
from tests.chaos.logged import record_violations
from tests.chaos.recorder import Recorder, Sending, attempt, sending
from tests.service.sample_models import GAPTRON, SIZE

MODEL = "deserted"
TOGETHER = 6
"""Requests that each client has in flight at once."""

LONGEST = 0.03
"""Seconds after which a client has left, at the latest. Most groups take less."""


class Leavers(Recorder):
    """Clients that leave requests of every kind, and send them again until they are answered."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": GAPTRON}
    count = 2

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 9])
        self.left = 0

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        owns = [f"{own}-{i}" for i in range(TOGETHER)]
        contexts = rng.normal(size=(TOGETHER, SIZE)).tolist()
        made = [{"model": MODEL, "context": x, "prediction_id": each} for x, each in zip(contexts, owns, strict=True)]
        some = {"model": MODEL, "contexts": contexts[:3], "prediction_ids": owns[:3]}
        predictions = [sending("/predict", body, [(each, None)]) for body, each in zip(made[3:], owns[3:], strict=True)]
        predictions += [sending("/predict/batch", some, [(each, None) for each in owns[:3]])]
        bits = [(each, bool(rng.random() < 0.6)) for each in owns]
        for requests in (predictions, [_feedback(bits[:2]), *(_feedback([each]) for each in bits[2:])]):
            await asyncio.gather(*(self._leave(each, float(rng.random()) * LONGEST) for each in requests))
            await self._together(client, rng, requests)

    async def _leave(self, request: Sending, seconds: float) -> None:
        """Send a request over a new connection, and close the connection after a time if no answer has come."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(seconds), connect(self._url) as leaver:
                response = await attempt(leaver, request)
        except TimeoutError:
            response = "left"
            self.left += 1
        self._record(request, begun, response)

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the model, its log and its workers, as sentences."""
        wrong = [] if self.left else ["no client left before its answer"]
        wrong += await record_violations(self, client)
        return wrong + await state_violations(self._url, {"model": MODEL, "context": [1.0] * SIZE})


def _feedback(bits: Sequence[tuple[str, bool]]) -> Sending:
    items = [{"prediction_id": f"{MODEL}:{own}", "correct": bit} for own, bit in bits]
    return (
        sending("/feedback/batch", {"feedback": items}, bits) if len(bits) > 1 else sending("/feedback", items[0], bits)
    )
