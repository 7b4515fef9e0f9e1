"""Clients that the service must refuse under every fault: without a key, with a wrong one, or without the scope."""

import asyncio
from collections import Counter
from typing import Any, ClassVar, NamedTuple

import httpx2
import numpy as np

from tests.chaos.clients import Clients, connect
from tests.chaos.keyring import READER, REVOKED, UNKNOWN
from tests.chaos.logged import read
from tests.service.sample_models import GAPTRON, SIZE

MODEL = "locked"
UNAVAILABLE = 503
"""The store that has the keys does not answer, or all places are taken."""


class Credential(NamedTuple):
    """A key, and how a request with it may be refused."""

    key: str | None
    statuses: frozenset[int]


CREDENTIALS = {
    "no key": Credential(None, frozenset({401})),
    "a malformed key": Credential("wk_1", frozenset({401, 429})),  # 429 after many wrong keys
    "an unknown key": Credential(UNKNOWN, frozenset({401, 429})),
    "a revoked key": Credential(REVOKED, frozenset({401, 429})),
    "a read-only key": Credential(READER, frozenset({403})),
}

REQUESTS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", "/predict", {"model": MODEL, "context": [1.0] * SIZE}),
    ("POST", "/feedback", {"prediction_id": f"{MODEL}:none", "correct": True}),
    ("DELETE", f"/models/{MODEL}", None),
    ("POST", f"/models/{MODEL}/reset", {}),
]


class Unauthorized(Clients):
    """Clients with every kind of insufficient key, and a model that they must not change."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": GAPTRON}
    count = 1

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 5])
        self.refused: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        del client, own  # each of these clients has its own connection
        await self._try(list(CREDENTIALS)[int(rng.integers(len(CREDENTIALS)))], rng)
        await asyncio.sleep(0.05)

    async def _try(self, name: str, rng: np.random.Generator) -> None:
        """Send a request with a credential."""
        method, path, body = REQUESTS[int(rng.integers(len(REQUESTS)))]
        try:
            async with connect(self._url, key=CREDENTIALS[name].key) as unauthorized:
                self.judge(name, await unauthorized.request(method, path, json=body))
                if name == "a read-only key":
                    self._judge_reading(await unauthorized.get(f"/models/{MODEL}"))
        except httpx2.TransportError:
            pass

    def judge(self, name: str, response: httpx2.Response) -> None:
        """Check that such a client is refused, with Retry-After if it has tried too often."""
        status = response.status_code
        if status == UNAVAILABLE:
            return
        self.refused[name] += 1
        if status not in CREDENTIALS[name].statuses:
            self.wrong.append(f"{name} got {status}: {response.text}")
        if status == 429 and not response.headers.get("Retry-After", "").isdecimal():
            self.wrong.append(f"{name} got 429 without Retry-After")

    def _judge_reading(self, response: httpx2.Response) -> None:
        if response.status_code not in {200, UNAVAILABLE}:
            self.wrong.append(f"a read-only key could not read: {response.status_code}: {response.text}")

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the answers and the model, as sentences."""
        for name in CREDENTIALS.keys() - self.refused.keys():  # in a short run beside a full load
            await self._try(name, self._rngs[0])
        model = (await read(client, f"/models/{MODEL}")).json()
        changed = model["predictions"] or model["rounds_seen"] or model["changes"]["count"]
        never = [f"{name} was never refused" for name in CREDENTIALS if not self.refused[name]]
        return [*self.wrong, *never, *(["a refused request changed the model"] if changed else [])]
