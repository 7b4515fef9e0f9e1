"""The requests that generators send, and their outcomes."""

import asyncio
import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from toolkit.load.client import NO_ANSWER, Client, Done
from toolkit.load.timing import Measured

_TOO_MANY_REQUESTS = 429


class Outcome(NamedTuple):
    """The outcome of one item of a request."""

    status: int
    label: str = ""


def is_open(status: int) -> bool:
    """Check whether a status leaves the outcome unknown. Then the request is repeated, which is safe."""
    return status in {NO_ANSWER, _TOO_MANY_REQUESTS} or status >= 500


def predict_path(batch: int) -> str:
    """Return the path of predictions."""
    return "/predict" if batch == 1 else "/predict/batch"


def feedback_path(batch: int) -> str:
    """Return the path of feedback."""
    return "/feedback" if batch == 1 else "/feedback/batch"


def predict_body(model: str, ids: Sequence[str], contexts: Sequence[str], batch: int) -> bytes:
    """Return a body that requests predictions with these ids; contexts are JSON."""
    if batch == 1:
        return f'{{"model":"{model}","prediction_id":"{ids[0]}","context":{contexts[0]}}}'.encode()
    given = ",".join(f'"{each}"' for each in ids)
    return f'{{"model":"{model}","prediction_ids":[{given}],"contexts":[{",".join(contexts)}]}}'.encode()


def feedback_item(model: str, id_: str, correct: bool, true_label: str | None) -> str:
    """Return the feedback on one prediction as JSON."""
    truth = f'"correct":{"true" if correct else "false"}' if true_label is None else f'"true_label":"{true_label}"'
    return f'{{"prediction_id":"{model}:{id_}",{truth}}}'


def feedback_body(items: Sequence[str], batch: int) -> bytes:
    """Return a body with these feedback items."""
    return (items[0] if batch == 1 else f'{{"feedback":[{",".join(items)}]}}').encode()


def outcomes(status: int, body: bytes, n: int, batch: int) -> list[Outcome]:
    """Read the outcome of each of n items from a response. All are NO_ANSWER if the response is unreadable."""
    if status != OK:
        return [Outcome(status)] * n
    try:
        answer = json.loads(body)
        items = [answer] if batch == 1 else next(iter(answer.values()))
        found = [_outcome(item) for item in items]
    except (ValueError, LookupError, TypeError, AttributeError):
        return [Outcome(NO_ANSWER)] * n
    return found if len(found) == n else [Outcome(NO_ANSWER)] * n


def _outcome(item: dict[str, Any]) -> Outcome:
    if "propensity" in item or "round" in item:
        return Outcome(OK, item.get("label") or "")
    return Outcome(int(item["status"]))


OK = 200


class Bound:
    """A bound on outstanding requests, over all senders that share it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._under_way = 0
        self._idle = asyncio.Event()

    def enter(self) -> bool:
        """Admit one more request if there is room. Return whether it was admitted."""
        room = self._under_way < self._limit
        self._under_way += room
        return room

    def leave(self) -> None:
        """Count one request as finished."""
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    async def drained(self) -> None:
        """Wait until no request is outstanding."""
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()


class MeasuredSender:
    """Sends requests of one kind, and measures those that are due within a window.

    Args:
        client: the client that sends them.
        bound: requests above this bound are counted but not sent.
        begins: start of the window, in seconds of `time.perf_counter`.
        ends: end of the window, in the same seconds.
    """

    def __init__(self, client: Client, bound: Bound, begins: float, ends: float) -> None:
        self._client, self._bound = client, bound
        self._begins, self._ends = begins, ends
        self.measured = Measured(seconds=max(0.0, ends - begins))

    def send(self, due: float, request: bytes, done: Done) -> bool:
        """Send a request that was due at `due`. Return whether the bound had room for it."""
        counts = self._begins <= due < self._ends
        self.measured.due += counts
        if not self._bound.enter():
            self.measured.not_sent += counts
            return False
        self._client.send(request, partial(self._answered, due, done))
        return True

    def _answered(self, due: float, done: Done, status: int, body: bytes) -> None:
        now = time.perf_counter()
        self._bound.leave()
        self.measured.answered += status == OK and self._begins <= now < self._ends
        if self._begins <= due < self._ends:
            self.measured.latency.add(now - due)
            self.measured.no_answer += status == NO_ANSWER
            self.measured.refused += status not in {OK, NO_ANSWER}
        done(status, body)
