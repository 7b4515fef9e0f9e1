"""Clients that record every request and reply, for the exact check of their history against the log."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx2
import numpy as np

from tests.chaos.clients import NEVER, Clients, patient
from tests.chaos.history import Answer, Operation, Verdict

_REFUSALS = {"prediction-not-found": Verdict("not-found"), "feedback-conflict": Verdict("conflict")}
_OPEN = frozenset({503, 507})


class Sending(NamedTuple):
    """A request to send until it is answered."""

    path: str
    content: bytes
    about: Sequence[tuple[str, float | None]]  # prediction and feedback of each item; None for a prediction
    headers: Mapping[str, str] = {}


def sending(path: str, body: Any, about: Sequence[tuple[str, float | None]]) -> Sending:
    """Return a request with a JSON body."""
    return Sending(path, json.dumps(body).encode(), about)


class Recorder(Clients):
    """Clients that record operations, and repeat unanswered requests.

    Attributes:
        history: every operation.
        requests: requests by status or error.
    """

    def __init__(self, url: str, seed: int | list[int]) -> None:
        super().__init__(url, seed)
        self.history: list[Operation] = []
        self.requests: Counter[str] = Counter()

    async def _together(self, client: httpx2.AsyncClient, rng: np.random.Generator, all_: Sequence[Sending]) -> None:
        """Send requests at the same time, in a random order, until all are answered."""
        await asyncio.gather(*(self._send_until_answered(client, all_[i]) for i in rng.permutation(len(all_))))

    async def _send_until_answered(self, client: httpx2.AsyncClient, sending: Sending) -> None:
        """Send a request until every outcome is known; each item of each attempt is a separate operation."""
        async with patient(sending.path):
            while True:
                if await self._send(client, sending):
                    return
                await asyncio.sleep(0.02)

    async def _send(self, client: httpx2.AsyncClient, sending: Sending) -> bool:
        """Send a request once, and record it; return whether every outcome is known."""
        begun = time.monotonic()
        return self._record(sending, begun, await attempt(client, sending))

    def _record(self, sending: Sending, begun: float, response: httpx2.Response | str) -> bool:
        """Record a request that began then, and its response or error; return whether every outcome is known."""
        n = len(sending.about)
        replies = [None] * n if isinstance(response, str) else replies_in(response, n)
        self.requests[response if isinstance(response, str) else str(response.status_code)] += 1
        ended = time.monotonic()
        for (own, correct), reply in zip(sending.about, replies, strict=True):
            self.history.append(Operation(own, correct, begun, ended, reply))
        return None not in replies


async def attempt(client: httpx2.AsyncClient, sending: Sending) -> httpx2.Response | str:
    """Send a request once; return the response, or the name of the error."""
    try:
        return await client.post(sending.path, content=sending.content, headers=sending.headers)
    except httpx2.TransportError as error:
        return type(error).__name__


def replies_in(response: httpx2.Response, n: int) -> Sequence[Answer | Verdict | None]:
    """Return the reply to each of the n items of a request; a problem of the whole request concerns all of them.

    Raises:
        AssertionError: if the service refuses the key, asks to send less, or has an internal error.
    """
    assert response.status_code not in NEVER, f"got {response.status_code}: {response.text}"
    body = response.json()
    items = body.get("predictions") or body.get("results") or body.get("slots")
    return [_reply_in(body)] * n if items is None else [_reply_in(item) for item in items]


def _reply_in(item: dict[str, Any]) -> Answer | Verdict | None:
    if item.get("status") in _OPEN:
        return None
    if "type" in item:
        return _REFUSALS[item["type"].removeprefix("urn:wager:problem:")]
    if "label" in item:
        return Answer(sys.intern(item["label"]), item["propensity"])
    if "reason" in item:  # of a webhook
        return _reply_in(item["reason"] if item["feedback"] is None else item["feedback"])
    return Verdict(sys.intern(item["status"]), item["reward"], item["round"])
