"""Clients that evaluate a feature flag: values stick until their span ends or the model changes; feedback counts."""

import asyncio
import time
from collections import defaultdict
from typing import Any, ClassVar, NamedTuple

import httpx2
import numpy as np

from tests.chaos.changes import confirm
from tests.chaos.clients import NEVER, connect, patient, post
from tests.chaos.history import Answer, Operation
from tests.chaos.logged import lines_of, record_violations
from tests.chaos.recorder import Recorder, Sending, attempt, sending
from tests.chaos.replayed import propensity_violations
from tests.service.evaluations import FLAGS
from tests.service.sample_models import LABELS

MODEL = "flag"
SPAN = 4.0
"""Seconds for which values stick."""

PAUSE = 1.0
"""Seconds between two changes of the labels."""

VISITORS = 5
FEWEST = 1
"""Repeated evaluations, and changes, that a run must have."""


class Asked(NamedTuple):
    """What an evaluation asked; the answer is the same while all of it is."""

    visitor: str
    country: str
    is_bulk: bool
    span: float
    changes: int


class Value(NamedTuple):
    """An answer."""

    prediction_id: str
    variant: str
    propensity: float


class Evaluations(Recorder):
    """One client that adds and retires labels; others evaluate the flag, alone or in bulk, and give feedback."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {
        "learner": {"algorithm": "fastcb"},
        "features": {"kind": "named", "size": 64},  # small, because every change adds a label
        "ofrep": {"bulk": True, "sticky_seconds": SPAN},
    }
    count = 3

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 11])
        self._begun, self._confirmed = 0, 0  # changes
        self._retired: list[str] = []
        self._wrong: list[str] = []
        self.stuck: defaultdict[Asked, list[Value]] = defaultdict(list)

    async def play(self) -> None:
        """Run all clients until `over` is set."""
        await asyncio.gather(self._change(), super().play())

    async def _change(self) -> None:
        async with connect(self._url) as client:
            while not self.over:
                await asyncio.sleep(PAUSE)
                self._begun += 1
                added, retired = f"new-{self._begun}", f"new-{self._begun - 1}" if self._begun > 1 else LABELS[0]
                labels = {"add": [added], "retire": [retired]}
                self._wrong += await confirm(client, MODEL, "PATCH", "", {"labels": labels})
                self._confirmed += 1
                self._retired.append(retired)

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        visitor, country = f"visitor-{int(rng.integers(VISITORS))}", str(rng.choice(["FR", "CH"]))
        value = await self._evaluate(client, visitor, country, is_bulk=bool(rng.random() < 0.3))
        name = value.prediction_id.partition(":")[2]
        if rng.random() < 0.5:
            bit = bool(rng.random() < 0.6)
            await self._together(client, rng, [_feedback(name, bit)] * 2)

    async def _evaluate(self, client: httpx2.AsyncClient, visitor: str, country: str, *, is_bulk: bool) -> Value:
        """Evaluate the flag until it is answered, and record the answer; activate a prediction of a bulk."""
        body = {"context": {"targetingKey": visitor, "country": country}}
        request = sending(FLAGS if is_bulk else f"{FLAGS}/{MODEL}", body, [])
        async with patient(request.path):
            while (value := await self._try(client, request, visitor, country)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        if is_bulk:
            await post(client, "/activate", {"prediction_id": value.prediction_id})
        return value

    async def _try(self, client: httpx2.AsyncClient, request: Sending, visitor: str, country: str) -> Value | None:
        """Evaluate the flag once; return None if the service could not answer."""
        begun, at, confirmed, gone = time.monotonic(), time.time(), self._confirmed, set(self._retired)
        response = await attempt(client, request)
        self.requests[response if isinstance(response, str) else str(response.status_code)] += 1
        value = None if isinstance(response, str) else value_in(response)
        if value is None:
            return None
        own, answer = value.prediction_id.partition(":")[2], Answer(value.variant, value.propensity)
        self.history.append(Operation(own, None, begun, time.monotonic(), answer))
        if value.variant in gone:
            self._wrong.append(f"{own} has the label {value.variant}, which was retired before the request")
        span = at // SPAN
        if span == time.time() // SPAN and confirmed == self._begun:  # else the answer may be one or the other
            self.stuck[Asked(visitor, country, request.path == FLAGS, span, confirmed)].append(value)
        return value

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the answers, the model and its log, as sentences."""
        for i in range(2 * VISITORS):  # in a short run beside a full load, no evaluation may have been repeated
            value = await self._evaluate(client, f"visitor-{i % 2}", "FR", is_bulk=False)
        await self._send_until_answered(client, _feedback(value.prediction_id.partition(":")[2], True))
        wrong = [*self._wrong, *self.stickiness_violations(), *await record_violations(self, client)]
        return wrong + await propensity_violations(client, MODEL, [line async for line in lines_of(client, MODEL)])

    def stickiness_violations(self) -> list[str]:
        """Return a sentence for each answer that did not stick, or that stuck to something else."""
        wrong = [f"{asked} was answered with {set(each)}" for asked, each in self.stuck.items() if len(set(each)) > 1]
        first, repeated = dict[str, Asked](), sum(len(each) - 1 for each in self.stuck.values())
        for asked, values in self.stuck.items():
            if first.setdefault(values[0].prediction_id, asked) != asked:
                wrong.append(f"{asked} and {first[values[0].prediction_id]} have the same prediction")
        if min(repeated, self._confirmed) < FEWEST:
            wrong.append(f"only {repeated} evaluations were repeated, and {self._confirmed} changes confirmed")
        return wrong


def value_in(response: httpx2.Response) -> Value | None:
    """Return the value in the answer of an evaluation; None if the service could not answer.

    Raises:
        AssertionError: if the service refuses the request, or has an internal error.
    """
    assert response.status_code not in NEVER, f"got {response.status_code}: {response.text}"
    if response.status_code != 200:
        assert response.status_code in {503, 507}, response.text
        return None
    body = response.json()
    found = next((each for each in body.get("flags", [body]) if each["key"] == MODEL), None)
    if found is None or "errorCode" in found:
        assert found is None or found["errorCode"] == "GENERAL", response.text
        return None
    return Value(found["metadata"]["predictionId"], found["variant"], found["metadata"]["propensity"])


def _feedback(own: str, correct: bool) -> Sending:
    return sending("/feedback", {"prediction_id": f"{MODEL}:{own}", "correct": correct}, [(own, correct)])
