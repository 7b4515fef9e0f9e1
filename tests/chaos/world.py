"""A service under load, with a record of what its clients were told, and what must be true of it in the end."""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx2
import numpy as np

from tests.chaos.checker import unexplained
from tests.chaos.history import Answer, Operation, Verdict
from tests.service.models import GAPTRON, SIZE, Replay, definition

MODEL = "forest"
CLIENTS = 8

_REFUSALS = {"prediction-not-found": "not-found", "feedback-conflict": "conflict"}


class Report(NamedTuple):
    """What was counted."""

    rounds: int  # in the log
    acknowledged: int  # predictions whose feedback was acknowledged
    lost: list[str]  # acknowledged, and not in the log
    wrong: list[str]  # everything else that must not be, in words
    requests: Counter[str]  # by what came of them


class Crowd:
    """Clients who predict, and give feedback doubled, shuffled and contradicted, each repeated until answered.

    Args:
        url: of the service.
        seed: of what they do.
    """

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._rngs = np.random.default_rng(seed).spawn(CLIENTS)
        self.history: list[Operation] = []
        self.requests: Counter[str] = Counter()
        self.over = False

    async def create_model(self) -> None:
        """Makes the model that all of it is about."""
        async with httpx2.AsyncClient(base_url=self._url, timeout=10.0) as client:
            (await client.post("/models", json=definition(MODEL, learner=GAPTRON))).raise_for_status()

    async def play(self) -> None:
        """Everybody, until it is over."""
        await asyncio.gather(*(self._play_one(number) for number in range(CLIENTS)))

    async def _play_one(self, number: int) -> None:
        rng = self._rngs[number]
        async with httpx2.AsyncClient(base_url=self._url, timeout=5.0) as client:
            for turn in itertools.count():
                if self.over:
                    return
                own = f"{number}-{turn}"
                asked = {"model": MODEL, "context": rng.normal(size=SIZE).tolist(), "prediction_id": own}
                await self._together(rng, [self._ask(client, own, asked) for _ in range(rng.integers(1, 3))])
                bits = rng.random(int(rng.integers(1, 4))) < 0.7
                await self._together(rng, [self._tell(client, own, bool(bit)) for bit in bits])

    async def _together(self, rng: np.random.Generator, requests: list[Any]) -> None:
        await asyncio.gather(*(requests[i] for i in rng.permutation(len(requests))))

    async def _ask(self, client: httpx2.AsyncClient, own: str, body: dict[str, Any]) -> None:
        await self._insist(client, "/predict", body, own, None, answer_in)

    async def _tell(self, client: httpx2.AsyncClient, own: str, correct: bool) -> None:
        body = {"prediction_id": f"{MODEL}:{own}", "correct": correct}
        await self._insist(client, "/feedback", body, own, correct, verdict_in)

    async def _insist(
        self,
        client: httpx2.AsyncClient,
        path: str,
        body: dict[str, Any],
        own: str,
        correct: bool | None,
        read: Callable[[httpx2.Response], Answer | Verdict | None],
    ) -> None:
        """Sends a request until its outcome is known; each sending is an operation of its own."""
        async with asyncio.timeout(120.0):
            reply = None
            while reply is None:
                begun = time.monotonic()
                try:
                    response = await client.post(path, json=body)
                except httpx2.TransportError as error:
                    outcome = type(error).__name__
                else:
                    outcome, reply = str(response.status_code), read(response)
                self.requests[outcome] += 1
                self.history.append(Operation(own, correct, begun, time.monotonic(), reply))
                if reply is None:
                    await asyncio.sleep(0.02)


def answer_in(response: httpx2.Response) -> Answer | None:
    """The prediction that a response tells."""
    if response.status_code in {503, 507}:
        return None
    assert response.status_code == 200, response.text
    return Answer(response.json()["label"], response.json()["propensity"])


def verdict_in(response: httpx2.Response) -> Verdict | None:
    """What a response tells of a feedback."""
    if response.status_code in {503, 507}:
        return None
    body = response.json()
    if response.status_code == 200:
        return Verdict(body["status"], body["correct"], body["round"])
    return Verdict(_REFUSALS[body["type"].removeprefix("urn:wager:problem:")])


async def judge(crowd: Crowd, clients: list[httpx2.AsyncClient]) -> Report:
    """Counts, and compares everything with everything.

    Args:
        crowd: after its play.
        clients: one of each worker.
    """
    model = (await clients[0].get(f"/models/{MODEL}")).json()
    lines = await _read_log(clients[0])
    acknowledged = _acknowledged(crowd.history)
    logged = {line["prediction_id"].removeprefix(f"{MODEL}:"): line for line in lines}
    wrong = [*_miscounted(model, lines, logged), *_misrecorded(crowd.history, acknowledged, logged)]
    wrong += [f"no order explains what was told about {own}" for own in unexplained(crowd.history)]
    wrong += await _misfolded(model, lines, clients)
    lost = sorted(acknowledged.keys() - logged.keys())
    return Report(len(lines), len(acknowledged), lost, wrong, crowd.requests)


async def _read_log(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    while True:
        after = lines[-1]["round"] if lines else 0
        text = (await client.get(f"/models/{MODEL}/rounds", params={"after": after, "limit": 1000})).text
        if not text:
            return lines
        lines += [json.loads(line) for line in text.splitlines()]


def _acknowledged(history: list[Operation]) -> dict[str, Verdict]:
    told = ((each.prediction_id, each.reply) for each in history)
    return {own: reply for own, reply in told if isinstance(reply, Verdict) and reply.round is not None}


def _miscounted(model: dict[str, Any], lines: list[dict[str, Any]], logged: dict[str, Any]) -> list[str]:
    wrong = []
    if len(lines) != len(logged):
        wrong.append(f"{len(lines)} rounds are of {len(logged)} predictions")
    if [line["round"] for line in lines] != list(range(1, len(lines) + 1)):
        wrong.append("the rounds are not numbered one after the other")
    if model["rounds_seen"] != len(lines):
        wrong.append(f"the model counts {model['rounds_seen']} rounds, the log {len(lines)}")
    return wrong


def _misrecorded(history: list[Operation], acknowledged: dict[str, Verdict], logged: dict[str, Any]) -> list[str]:
    """What the log has otherwise than it was told, or has though nobody was told."""
    wrong = [f"{own} is in the log, and was never acknowledged" for own in logged.keys() - acknowledged.keys()]
    for own, verdict in acknowledged.items():
        line = logged.get(own)
        if line and (line["correct"], line["round"]) != (verdict.correct, verdict.round):
            wrong.append(f"{own} was acknowledged as {verdict}, and recorded as {line}")
    for each in history:
        line = logged.get(each.prediction_id)
        if line and isinstance(each.reply, Answer) and each.reply != (line["label"], line["propensity"]):
            wrong.append(f"{each.prediction_id} was answered as {each.reply}, and recorded as {line}")
    return wrong


async def _misfolded(
    model: dict[str, Any], lines: list[dict[str, Any]], clients: list[httpx2.AsyncClient]
) -> list[str]:
    """Workers whose state is not the fold of the log, to the bit."""
    truth, wrong = Replay(model, tolerance=1e-9), []
    for line in lines:
        try:
            truth.add(line)
        except AssertionError:
            return [f"round {line['round']} has another propensity than its rounds give"]
    for number, client in enumerate(clients):
        for context in np.random.default_rng(9).normal(size=(3, SIZE)).tolist():
            body = {"model": MODEL, "context": context, "include_distribution": True}
            answer = (await client.post("/predict", json=body)).json()
            if list(answer["distribution"].values()) != truth.distribution(context):
                wrong.append(f"the state of worker {number} is not the fold of the log")
    return wrong
