"""The load of a soak: steady models with feedback that is late or never comes, and models that come and go."""

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.traffic import CONNECTIONS, SMALL, feedback_body
from toolkit.load.client import OK, Client, Done
from toolkit.load.loops import Pace, Requests, closed_loop, open_loop
from toolkit.load.timing import Measured

WINDOW = 30.0
"""Seconds that a prediction waits for feedback."""

RETAINED = 5_000
"""Rounds that each log keeps."""

STEADY: Mapping[str, Mapping[str, Any]] = {
    "recommended": {"learner": "fastcb"},
    "compact": {"learner": "fastcb", "precision": "float32"},
    "silent": {"learner": "fastcb", "on_expiry": "incorrect", "learn": "on_arrival"},
    "waiting": {"learner": "gaptron", "on_expiry": "incorrect", "learn": "at_window_close"},
    "quadratic": {"learner": "soba-diagonal"},
    "hinge": {"learner": {"algorithm": "gaptron", "loss": "hinge"}},
    "linear": {"learner": "banditron"},
    "shared": {"learner": "pnewtron"},
}
"""The models that exist throughout, with what differs from the default."""

FEEDBACK_SHARE = 0.9
"""The other predictions never get any."""

GUESTS = 6
"""Models that exist at a time besides the steady ones. In each slice, the oldest goes and a new one comes."""

_GUEST_ROUNDS = 50
_BODIES = 4_000


class Slice(NamedTuple):
    """The measurements of a slice."""

    predict: Measured
    feedback: Measured


class Load:
    """The clients of one worker.

    Args:
        client: client with `CONNECTIONS` connections.
        rate: predictions per second; feedback comes at the same rate.
        seconds: length of a slice.
    """

    def __init__(self, client: Client, rate: float, seconds: float) -> None:
        self._client, self._rate, self._seconds = client, rate, seconds
        self._bodies = itertools.cycle(prediction_bodies())
        self._answers: list[bytes] = []
        self._guests: deque[str] = deque()
        self._names = (f"guest-{i % (2 * GUESTS)}" for i in itertools.count())  # a name returns after a while

    async def take_slice(self, seed: int) -> Slice:
        """Make predictions, and give feedback for those of the slice before.

        Raises:
            RuntimeError: if a request for a guest fails.
        """
        answers, self._answers = self._answers, []
        pace = Pace(self._rate, self._seconds, seed=seed)
        predict = Requests("POST", "/predict", self._bodies, self._answers.append)
        given = Requests("POST", "/feedback", feedback_bodies(answers))
        (predicted, _), (fed, _), _ = await asyncio.gather(
            open_loop(self._client, predict, pace), open_loop(self._client, given, pace), self._change_guests()
        )
        return Slice(predicted, fed)

    async def _change_guests(self) -> None:
        """Delete the oldest guest, and create and use a new one."""
        if len(self._guests) == GUESTS:
            await self._call("DELETE", f"/models/{self._guests.popleft()}")
        name = next(self._names)
        await self._call("POST", "/models", definition(name, {}))
        self._guests.append(name)
        for context in SMALL.contexts(_GUEST_ROUNDS, seed=3):
            made = await self._call("POST", "/predict", {"model": name, "context": context})
            await self._call("POST", "/feedback", {"prediction_id": json.loads(made)["prediction_id"], "correct": True})

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        answer = await self._client.call(method, path, b"" if body is None else json.dumps(body).encode())
        if answer.status >= 300 or not answer.status:
            raise RuntimeError(f"{method} {path}: {answer.status}, {answer.body.decode()}")
        return answer.body


def definition(name: str, special: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a model of the soak."""
    special = dict(special)
    features = {"kind": "dense", "size": SMALL.d, "norm": "unit"}
    features |= {"precision": special.pop("precision")} if "precision" in special else {}
    labels = [f"label-{k}" for k in range(SMALL.K)]
    common = {"name": name, "labels": labels, "features": features, "window_seconds": WINDOW}
    return common | {"retain_rounds": RETAINED, "learner": "fastcb"} | special


def prediction_bodies() -> list[bytes]:
    """Return bodies for /predict, for the steady models in turn."""
    named = zip(itertools.cycle(STEADY), SMALL.contexts(_BODIES, seed=1), strict=False)
    return [json.dumps({"model": name, "context": context}).encode() for name, context in named]


def feedback_bodies(answers: list[bytes]) -> Iterator[bytes]:
    """Yield feedback for most of the predictions; one in three is right."""
    for i, answer in enumerate(answers[: int(FEEDBACK_SHARE * len(answers))]):
        yield feedback_body(answer, i)


async def capacity(client: Client, n: int) -> float:
    """Return the predictions per second of the steady models in a closed loop, while feedback comes at the same time.

    Half of `CONNECTIONS` make predictions, and the other half give feedback for predictions of the turn before.
    """
    bodies, answers = itertools.cycle(prediction_bodies()), list[bytes]()
    for count in (n // 4, n, n):  # the first warms up
        given, answers = feedback_bodies(answers), []
        predict = Requests("POST", "/predict", itertools.islice(bodies, count))
        feedback = Requests("POST", "/feedback", given).encoded(client.target)
        made, _ = await asyncio.gather(
            closed_loop(client, predict.encoded(client.target), CONNECTIONS // 2, answered=_keep(answers)),
            closed_loop(client, feedback, CONNECTIONS // 2),
        )
    return made.achieved


def _keep(answers: list[bytes]) -> Done:
    def answered(status: int, body: bytes) -> None:
        if status == OK:
            answers.append(body)

    return answered
