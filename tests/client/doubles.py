"""Services that a test controls, for the client."""

import inspect
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import httpx2
import pytest

from wager_client import AsyncFeedbackQueue, AsyncWager, FeedbackQueue, Wager
from wager_client.outbox import Outbox

Handler = Callable[[httpx2.Request], httpx2.Response]
Reply = httpx2.Response | Exception | Handler

PREDICTION = {
    "prediction_id": "m:p",
    "model": "m",
    "label": "a",
    "labels": None,
    "propensity": 0.5,
    "rounds_seen": 3,
    "expires_at": "2027-01-16T08:00:00Z",
    "distribution": None,
    "holdout": False,
    "slots": None,
    "new_field": 7,
}


def problem(status: int, slug: str, **headers: str) -> httpx2.Response:
    body = {"type": f"urn:wager:problem:{slug}", "title": "t", "status": status, "detail": "d", "field": "f"}
    return httpx2.Response(status, json=body, headers={name.replace("_", "-"): text for name, text in headers.items()})


def predicted(request: httpx2.Request) -> httpx2.Response:
    asked = json.loads(request.content)
    answers = [PREDICTION | {"prediction_id": f"m:{each['prediction_id']}"} for each in asked.get("items", [asked])]
    return httpx2.Response(200, json={"predictions": answers} if "items" in asked else answers[0])


def recorded(prediction_id: str, status: str = "recorded") -> dict[str, Any]:
    return {
        "prediction_id": prediction_id,
        "correct": True,
        "reward": 1.0,
        "abstained": False,
        "status": status,
        "round": 1,
    }


class Scripted:
    def __init__(self, *replies: Reply) -> None:
        self._replies = itertools.chain(replies, itertools.repeat(replies[-1]))
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            reply = reply(request)
        return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.content)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


class Memory:
    """A service that records feedback once for each id, and fails as a schedule says.

    Args:
        failures: for each request, `lost` (nothing happens), `lost answer`, a status, or "" for success; then success.
    """

    def __init__(self, failures: Iterable[str | int] = ()) -> None:
        self._failures = iter(failures)
        self.rounds: dict[str, Any] = {}
        self.requests = 0

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests += 1
        failure = next(self._failures, "")
        if failure == "lost":
            raise httpx2.ConnectError("refused")
        if isinstance(failure, int):
            return problem(failure, "store-unavailable")
        results = [self._record(item) for item in json.loads(request.content)["feedback"]]
        if failure == "lost answer":
            raise httpx2.ReadError("reset")
        return httpx2.Response(200, json={"results": results})

    def _record(self, item: dict[str, Any]) -> dict[str, Any]:
        known = self.rounds.setdefault(item["prediction_id"], item)
        if known is item:
            return recorded(item["prediction_id"])
        if known == item:
            return recorded(item["prediction_id"], "duplicate")
        slug = "urn:wager:problem:feedback-conflict"
        return {"type": slug, "title": "t", "status": 409, "detail": "d"}


def client_of(handler: Handler, **options: Any) -> Wager:
    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    return Wager("http://wager", http_client=http, **{"backoff": 0.0} | options)


def async_client_of(handler: Handler, **options: Any) -> AsyncWager:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    return AsyncWager("http://wager", http_client=http, **{"backoff": 0.0} | options)


def outbox(size: int, batch: int, *arguments: Any, clock: list[float] | None = None, **options: Any) -> Outbox:
    now = clock or [0.0]
    drop, *more = arguments or ("oldest",)
    return Outbox(size, batch, drop, *more, now=lambda: now[0], draw=lambda: 0.5, **options)


def queue_of(handler: Handler, timeout: float = 30.0, **options: Any) -> FeedbackQueue:
    return FeedbackQueue(client_of(handler, timeout=timeout), **options)


def async_queue_of(handler: Handler, timeout: float = 30.0, **options: Any) -> AsyncFeedbackQueue:
    return AsyncFeedbackQueue(async_client_of(handler, timeout=timeout), **options)


EACH_QUEUE = pytest.mark.parametrize("make", [queue_of, async_queue_of], ids=["threads", "asyncio"])


async def done(value: Any) -> Any:
    """Return the result of a call of either client."""
    return await value if inspect.isawaitable(value) else value
