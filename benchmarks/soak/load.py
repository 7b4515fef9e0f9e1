"""The load of a soak: steady models with feedback that is late or never comes, a flag, and models that come and go."""

import asyncio
import itertools
import json
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.traffic import CONNECTIONS, SMALL
from toolkit.load.client import OK, Client, Done
from toolkit.load.loops import Pace, Requests, closed_loop, open_loop
from toolkit.load.timing import Measured

WINDOW = 30.0
"""Seconds that a prediction waits for feedback."""

RETAINED = 1_000
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
    "paced": {
        "learner": {"algorithm": "fastcb", "half_life_rounds": 5_000.0},
        "costs": {"label-0": 1.0, "label-1": 0.3},
        "budget": {"cost": 0.1},
        "rules": {"groups": {"own": ["label-2", "label-3"]}, "floor": {"own": 0.1}, "cap": {"label-4": 0.5}},
        "holdout": {"fraction": 0.1, "policy": "uniform"},
        "on_expiry": "incorrect",
        "learn": "on_arrival",
    },
}
"""The models that exist throughout, with what differs from the default."""

FORMER: Mapping[str, Mapping[str, Any]] = {f"former-{name}": STEADY[name] for name in ("recommended", "quadratic")}
"""The models of the worker of the former version. Expired predictions of others are closed by either worker."""

FORMER_SHARE = 0.1
"""How many predictions they get for each one of the steady models."""

SHADOWS: Mapping[str, Mapping[str, Any]] = {
    "recommended": {"learner": "squarecb"},
    "paced": {"learner": {"algorithm": "fastcb", "half_life_rounds": 500.0}},
}
"""The learners that shadow models."""

FLAG = {"features": {"kind": "named"}, "ofrep": {"sticky_seconds": 5.0}}
"""The model `flag`, which is evaluated as a feature flag."""

FLAG_SHARE = 0.1
"""Its evaluations, as a share of the predictions of the steady models."""

VISITORS = 500
"""Visitors who evaluate it in turn."""

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
    blocks: int  # keys that hold the predictions

    @property
    def answered(self) -> int:
        """The number of requests with an answer."""
        return self.predict.answered + self.feedback.answered

    @property
    def failed(self) -> int:
        """The number of requests that were refused, unanswered, or not sent."""
        return sum(each.refused + each.no_answer + each.not_sent for each in (self.predict, self.feedback))


class Load:
    """Clients that ask one path, and give feedback in the next slice.

    Args:
        client: client with `CONNECTIONS` connections.
        path: path of the predictions, or of the evaluations of a flag.
        bodies: their bodies, sent again and again.
        rate: predictions per second; feedback comes at the same rate.
        seconds: length of a slice.
    """

    def __init__(self, client: Client, path: str, bodies: Sequence[bytes], rate: float, seconds: float) -> None:
        self._client, self._path, self._bodies = client, path, itertools.cycle(bodies)
        self._rate, self._seconds = rate, seconds
        self._answers: list[bytes] = []

    async def take_slice(self, seed: int) -> Slice:
        """Predict for a while, and send feedback for the previous slice."""
        answers, self._answers = self._answers, []
        pace = Pace(self._rate, self._seconds, seed=seed)
        asked = Requests("POST", self._path, self._bodies, self._answers.append)
        given = Requests("POST", "/feedback", feedback_bodies(answers))
        (predicted, _), (fed, _) = await asyncio.gather(
            open_loop(self._client, asked, pace), open_loop(self._client, given, pace)
        )
        return Slice(predicted, fed, len({":".join(own.split(":")[:2]) for own in ids_of(self._answers)}))


class Guests:
    """Models that come and go.

    Args:
        client: client with a free connection.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._present: deque[str] = deque()
        self._names = (f"guest-{i % (2 * GUESTS)}" for i in itertools.count())  # a name returns after a while

    async def change(self) -> None:
        """Delete the oldest guest, and create and use a new one."""
        if len(self._present) == GUESTS:
            await call(self._client, "DELETE", f"/models/{self._present.popleft()}")
        name = next(self._names)
        await call(self._client, "POST", "/models", definition(name, {}))
        self._present.append(name)
        for context in SMALL.contexts(_GUEST_ROUNDS, seed=3):
            made = await call(self._client, "POST", "/predict", {"model": name, "context": context})
            (own,) = ids_of([made])
            await call(self._client, "POST", "/feedback", {"prediction_id": own, "correct": True})


async def call(client: Client, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
    """Send a request; return the body of its answer.

    Raises:
        RuntimeError: if it fails; the message holds the answer.
    """
    answer = await client.call(method, path, b"" if body is None else json.dumps(body).encode())
    if answer.status >= 300 or not answer.status:
        raise RuntimeError(f"{method} {path}: {answer}")
    return answer.body


async def create_models(client: Client, models: Mapping[str, Mapping[str, Any]]) -> None:
    """Create models with their shadows."""
    for name, special in models.items():
        await call(client, "POST", "/models", definition(name, special))
        if name in SHADOWS:
            await call(client, "PUT", f"/models/{name}/shadows/rival", SHADOWS[name])


def definition(name: str, special: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a model of the soak."""
    special = dict(special)
    features = {"kind": "dense", "size": SMALL.d, "norm": "unit"}
    features |= {"precision": special.pop("precision")} if "precision" in special else {}
    labels = [f"label-{k}" for k in range(SMALL.K)]
    common = {"name": name, "labels": labels, "features": features, "window_seconds": WINDOW}
    return common | {"retain_rounds": RETAINED, "learner": "fastcb"} | special


def prediction_bodies(models: Iterable[str] = STEADY) -> list[bytes]:
    """Return bodies for /predict, for these models in turn."""
    named = zip(itertools.cycle(models), SMALL.contexts(_BODIES, seed=1), strict=False)
    return [json.dumps({"model": name, "context": context}).encode() for name, context in named]


def evaluation_bodies() -> list[bytes]:
    """Return bodies for evaluations of the flag, one for each visitor."""
    contexts = [{"targetingKey": f"visitor-{i}", "country": f"country-{i % 7}"} for i in range(VISITORS)]
    return [json.dumps({"context": each}).encode() for each in contexts]


def ids_of(answers: Iterable[bytes]) -> list[str]:
    """Return the ids of predictions or evaluations, each once."""
    read = map(json.loads, answers)
    ids = [each["prediction_id"] if "prediction_id" in each else each["metadata"]["predictionId"] for each in read]
    return list(dict.fromkeys(ids))


def feedback_bodies(answers: Iterable[bytes]) -> Iterator[bytes]:
    """Yield feedback for most of the predictions; about one in three is right, and the same one whenever asked."""
    ids = ids_of(answers)
    for own in ids[: int(FEEDBACK_SHARE * len(ids))]:
        yield json.dumps({"prediction_id": own, "correct": zlib.crc32(own.encode()) % 3 == 0}).encode()


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
