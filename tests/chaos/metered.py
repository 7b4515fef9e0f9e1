"""A client that exceeds the limit of its key: what is refused with 429 must have no effect."""

import asyncio
import time
from typing import Any, ClassVar

import httpx2
import numpy as np

from tests.chaos.clients import connect
from tests.chaos.keyring import LIMIT, METERED
from tests.chaos.logged import record_violations
from tests.chaos.recorder import Recorder, Sending, attempt, sending
from tests.service.sample_models import GAPTRON, SIZE

MODEL = "metered"


class Metered(Recorder):
    """One client that sends more than it may. A client without its limit then looks at what was refused."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": GAPTRON}
    count = 1

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 6])
        self.refused, self.passed, self.seconds = 0, 0, 0.0
        self.wrong: list[str] = []

    async def play(self) -> None:
        """Run the client until `over` is set."""
        begun = time.monotonic()
        async with connect(self._url, key=METERED) as self._hasty:
            await super().play()
        self.seconds = time.monotonic() - begun

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        await asyncio.gather(*(self._play_round(client, f"{own}-{i}", rng) for i in range(LIMIT + 1)))
        await asyncio.sleep(0.1)

    async def _play_round(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        bit, looks = bool(rng.random() < 0.5), bool(rng.random() < 0.2)
        body = {"model": MODEL, "context": rng.normal(size=SIZE).tolist(), "prediction_id": own}
        feedback = sending("/feedback", {"prediction_id": f"{MODEL}:{own}", "correct": bit}, [(own, bit)])
        if await self._try(sending("/predict", body, [(own, None)])):
            await self._try(feedback)
        elif looks:
            await self._send_until_answered(client, feedback)  # a refused prediction does not exist

    async def _try(self, sending: Sending) -> bool:
        """Send a request once; return False if the limit refuses it, which is not recorded: it has no effect."""
        begun, response = time.monotonic(), await attempt(self._hasty, sending)
        if isinstance(response, str) or response.status_code != 429:
            self.passed += not isinstance(response, str) and response.status_code < 500
            self._record(sending, begun, response)
            return True
        self.refuse(response)
        return False

    def refuse(self, response: httpx2.Response) -> None:
        """Count a refusal, and check that it says when to return."""
        self.refused += 1
        if not response.headers.get("Retry-After", "").isdecimal() or "rate-limited" not in response.text:
            self.wrong.append(f"a key over its limit got {response.headers} {response.text}")

    def limit_violations(self) -> list[str]:
        """Return a sentence if the limit refused nothing, or let too much pass."""
        most = LIMIT * (self.seconds + 2.0)
        few = [] if self.refused else ["the limit of a key refused nothing"]
        return few + ([f"{self.passed} requests passed in {self.seconds} s"] if self.passed > most else [])

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the refusals and the log, as sentences."""
        return [*self.wrong, *self.limit_violations(), *await record_violations(self, client, fewest=0)]
