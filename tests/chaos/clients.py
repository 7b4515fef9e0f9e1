"""What all clients of a chaos run share: they use one model until the run is over."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import httpx2
import numpy as np

from tests.service.sample_models import definition


class Clients(ABC):
    """Clients of one model.

    Args:
        url: URL of the service.
        seed: seed of the clients.
    """

    model: ClassVar[str]
    policies: ClassVar[dict[str, Any]]  # of the model, and its learner
    count: ClassVar[int]

    def __init__(self, url: str, seed: int | list[int]) -> None:
        self._url = url
        self._rngs = np.random.default_rng(seed).spawn(self.count)
        self.over = False

    async def create_model(self) -> None:
        """Create the model that all clients use."""
        async with httpx2.AsyncClient(base_url=self._url, timeout=10.0) as client:
            (await client.post("/models", json=definition(self.model, **self.policies))).raise_for_status()

    async def play(self) -> None:
        """Run all clients until `over` is set."""
        await asyncio.gather(*(self._play_one(number) for number in range(self.count)))

    async def _play_one(self, number: int) -> None:
        async with httpx2.AsyncClient(base_url=self._url, timeout=5.0) as client:
            for turn in itertools.count():
                if self.over:
                    return
                await self._play_turn(client, f"{number}-{turn}", self._rngs[number])

    @abstractmethod
    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        """Make one or more predictions, whose ids begin with `own`, and judge some of them."""


async def post(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request until its effect is known; return the answer or the problem."""
    async with asyncio.timeout(120.0):
        while True:
            try:
                response = await client.post(path, json=body)
            except httpx2.TransportError:
                response = None
            if response is not None and response.status_code not in {503, 507}:
                answer: dict[str, Any] = response.json()
                return answer
            await asyncio.sleep(0.02)
