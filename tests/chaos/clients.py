"""What all clients of a chaos run share: they use one model until the run is over."""

import asyncio
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx2
import numpy as np

from tests.chaos.keyring import CROWD
from tests.chaos.versions import EitherVersion
from tests.service.sample_models import definition

ALL_ROUNDS = 10**9
"""`retain_rounds` of every model: the checks read the whole log."""

NEVER = frozenset({401, 403, 429, 500})
"""Statuses that no client with a good key and a large limit may get."""

MAX_SECONDS = 300.0
"""Maximum time that the service may leave a request unanswered."""

LOOKS = 12
"""Predictions, each over a new connection, that compare the workers' states."""


class Clients(ABC):
    """Clients of one model.

    Args:
        url: URL of the service, or several as in `connect`.
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
        async with connect(self._url, timeout=10.0) as client:
            (await client.post("/models", json=self.definition())).raise_for_status()

    def definition(self) -> dict[str, Any]:
        """Return the definition of the model."""
        return definition(self.model, retain_rounds=ALL_ROUNDS, **self.policies)

    async def play(self) -> None:
        """Run all clients until `over` is set."""
        await asyncio.gather(*(self._play_one(number) for number in range(self.count)))

    async def _play_one(self, number: int) -> None:
        async with connect(self._url) as client:
            for turn in itertools.count():
                if self.over:
                    return
                await self._play_turn(client, f"{number}-{turn}", self._rngs[number])

    @abstractmethod
    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        """Make one or more predictions, whose ids begin with `own`, and judge some of them."""


def connect(url: str, timeout: float = 5.0, key: str | None = CROWD) -> httpx2.AsyncClient:
    """Return a client that presents a key, or none. It keeps its connections.

    If there are several URLs, separated by spaces, it sends each request to a random one of these services.
    """
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"X-API-Key": key})
    first, *others = map(httpx2.URL, url.split())
    transport = EitherVersion([first, *others]) if others else None
    return httpx2.AsyncClient(base_url=first, timeout=timeout, headers=headers, verify=False, transport=transport)


@asynccontextmanager
async def patient(what: str) -> AsyncIterator[None]:
    """Limit the time in which something must be answered, whatever faults there are.

    Raises:
        TimeoutError: with the name of it.
    """
    try:
        async with asyncio.timeout(MAX_SECONDS):
            yield
    except TimeoutError:
        raise TimeoutError(f"{what} was not answered within {MAX_SECONDS:g} s") from None


async def post(client: httpx2.AsyncClient, path: str, body: dict[str, Any], method: str = "POST") -> dict[str, Any]:
    """Send a request until its effect is known; return the answer or the problem.

    Raises:
        AssertionError: if the service refuses the key, asks to send less, or has an internal error.
    """
    async with patient(path):
        while True:
            try:
                response = await client.request(method, path, json=body)
            except httpx2.TransportError:
                response = None
            if response is not None and response.status_code not in {503, 507}:
                assert response.status_code not in NEVER, f"{path} got {response.status_code}: {response.text}"
                answer: dict[str, Any] = response.json()
                return answer
            await asyncio.sleep(0.02)


async def state_violations(url: str, body: dict[str, Any]) -> list[str]:
    """Return a sentence if workers answer a request with different distributions.

    Each request uses a new connection, so that every worker answers some.
    """
    seen = {json.dumps(await distribution(url, body)) for _ in range(LOOKS)}
    return [] if len(seen) == 1 else [f"workers have different states of {body['model']}: {seen}"]


async def distribution(url: str, body: dict[str, Any]) -> dict[str, float]:
    """Return the distribution for a request from whichever worker accepts a new connection; not the holdout's."""
    async with connect(url, timeout=30.0) as client:
        while (answer := await post(client, "/predict", body | {"include_distribution": True}))["holdout"]:
            pass
        found: dict[str, float] = answer["distribution"]
        return found
