"""Clients that load a service and record its replies, and the checks of the records at the end."""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import httpx2
import numpy as np

from tests.chaos.checker import unexplained
from tests.chaos.clients import Clients
from tests.chaos.history import UNRECORDED, Answer, Loss, Operation, Verdict
from tests.service.sample_models import GAPTRON, SIZE, Replay

MODEL = "forest"

_REFUSALS = {"prediction-not-found": "not-found", "feedback-conflict": "conflict"}


class Report(NamedTuple):
    """The counts of one run."""

    rounds: int  # rounds in the log
    acknowledged: int  # predictions with acknowledged feedback
    lost: list[str]  # ids acknowledged but not in the log
    renewed: list[str]  # ids lost and then recorded again as another round
    wrong: list[str]  # other violations, as sentences
    requests: Counter[str]  # requests by status or error


class Sending(NamedTuple):
    """A request to send until it is answered."""

    path: str
    body: dict[str, Any]
    about: Sequence[tuple[str, bool | None]]  # prediction and feedback of each item; None for a prediction


class Crowd(Clients):
    """Clients that predict, give duplicated, shuffled and contradictory feedback, and repeat unanswered requests."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": GAPTRON}
    count = 8

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, seed)
        self.history: list[Operation] = []
        self.requests: Counter[str] = Counter()

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        play = self._play_batch if rng.random() < 0.1 else self._play_round
        await play(client, rng, own)

    async def _play_round(self, client: httpx2.AsyncClient, rng: np.random.Generator, own: str) -> None:
        context = rng.normal(size=SIZE).tolist()
        prediction = Sending("/predict", {"model": MODEL, "context": context, "prediction_id": own}, [(own, None)])
        await self._together(client, rng, [prediction] * int(rng.integers(1, 3)))
        bits = rng.random(int(rng.integers(1, 4))) < 0.7
        await self._together(
            client, rng, [Sending("/feedback", feedback_body(own, bool(bit)), [(own, bool(bit))]) for bit in bits]
        )

    async def _play_batch(self, client: httpx2.AsyncClient, rng: np.random.Generator, prefix: str) -> None:
        owns = [f"{prefix}-{i}" for i in range(int(rng.integers(1, 6)))]
        contexts = rng.normal(size=(len(owns), SIZE)).tolist()
        body = {"model": MODEL, "contexts": contexts, "prediction_ids": owns}
        await self._together(client, rng, [Sending("/predict/batch", body, [(own, None) for own in owns])])
        batches = []
        for _ in range(int(rng.integers(1, 3))):
            pairs = [(own, bool(rng.random() < 0.7)) for own in rng.choice(owns, size=len(owns) + 1).tolist()]
            batches.append(Sending("/feedback/batch", {"feedback": [feedback_body(*pair) for pair in pairs]}, pairs))
        await self._together(client, rng, batches)

    async def _together(self, client: httpx2.AsyncClient, rng: np.random.Generator, all_: Sequence[Sending]) -> None:
        await asyncio.gather(*(self._send_until_answered(client, all_[i]) for i in rng.permutation(len(all_))))

    async def _send_until_answered(self, client: httpx2.AsyncClient, sending: Sending) -> None:
        """Send a request until every outcome is known; each item of each attempt is a separate operation."""
        async with asyncio.timeout(120.0):
            replies: list[Answer | Verdict | None] = [None]
            while None in replies:
                begun, replies = time.monotonic(), [None] * len(sending.about)
                try:
                    response = await client.post(sending.path, json=sending.body)
                except httpx2.TransportError as error:
                    outcome = type(error).__name__
                else:
                    outcome, replies = str(response.status_code), replies_in(response, len(sending.about))
                self.requests[outcome] += 1
                ended = time.monotonic()
                for (own, correct), reply in zip(sending.about, replies, strict=True):
                    self.history.append(Operation(own, correct, begun, ended, reply))
                if None in replies:
                    await asyncio.sleep(0.02)


def feedback_body(own: str, correct: bool) -> dict[str, Any]:
    """Return the body of a feedback."""
    return {"prediction_id": f"{MODEL}:{own}", "correct": correct}


def replies_in(response: httpx2.Response, n: int) -> list[Answer | Verdict | None]:
    """Return the reply to each of the n items of a request; a problem of the whole request concerns all of them."""
    body = response.json()
    items = body.get("predictions") or body.get("results")
    return [_reply_in(body)] * n if items is None else [_reply_in(item) for item in items]


def _reply_in(item: dict[str, Any]) -> Answer | Verdict | None:
    if item.get("status") in {503, 507}:
        return None
    if "type" in item:
        return Verdict(_REFUSALS[item["type"].removeprefix("urn:wager:problem:")])
    if "label" in item:
        return Answer(item["label"], item["propensity"])
    return Verdict(item["status"], item["correct"], item["round"])


async def judge(crowd: Crowd, clients: list[httpx2.AsyncClient], losses: Sequence[Loss] = ()) -> Report:
    """Check the log, the counters and every worker's state against the clients' records.

    Args:
        crowd: crowd that has finished.
        clients: one client per worker.
        losses: times at which the store may have lost something.
    """
    model = (await _read(clients[0], f"/models/{MODEL}")).json()
    lines = await _read_log(clients[0])
    logged = {line["prediction_id"].removeprefix(f"{MODEL}:"): line for line in lines}
    wrong = _count_violations(model, lines, logged)
    wrong += [
        f"no order explains {own}" for own in unexplained([*crowd.history, *_log_as_replies(logged, crowd)], losses)
    ]
    wrong += await _fold_violations(model, lines, clients)
    acknowledged = _acknowledged(crowd.history)
    lost = sorted(acknowledged.keys() - logged.keys())
    renewed = [own for own in acknowledged.keys() & logged.keys() if acknowledged[own] != {logged[own]["round"]}]
    return Report(len(lines), len(acknowledged), lost, renewed, wrong, crowd.requests)


def _log_as_replies(logged: dict[str, Any], crowd: Crowd) -> Iterator[Operation]:
    """Yield the log's record of every prediction as replies to a client."""
    now = time.monotonic()
    for own in logged.keys() | {each.prediction_id for each in crowd.history}:
        line = logged.get(own)
        if line is None:
            yield Operation(own, True, now, now, UNRECORDED)
        else:
            verdict = Verdict("duplicate", line["correct"], line["round"])
            yield Operation(own, None, now, now, Answer(line["label"], line["propensity"]))
            yield Operation(own, line["correct"], now, now, verdict)


async def _read(client: httpx2.AsyncClient, path: str, **parameters: int) -> httpx2.Response:
    """Read a resource, repeating while the store is unavailable."""
    for _ in range(600):
        response = await client.get(path, params=parameters)
        if response.status_code != 503:
            break
        await asyncio.sleep(0.1)
    return response.raise_for_status()


async def _read_log(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    while True:
        after = lines[-1]["round"] if lines else 0
        text = (await _read(client, f"/models/{MODEL}/rounds", after=after, limit=1000)).text
        if not text:
            return lines
        lines += [json.loads(line) for line in text.splitlines()]


def _acknowledged(history: list[Operation]) -> dict[str, set[int]]:
    """Return the acknowledged rounds per prediction: one each, unless something was lost."""
    rounds: defaultdict[str, set[int]] = defaultdict(set)
    for each in history:
        if isinstance(each.reply, Verdict) and each.reply.round is not None:
            rounds[each.prediction_id].add(each.reply.round)
    return rounds


def _count_violations(model: dict[str, Any], lines: list[dict[str, Any]], logged: dict[str, Any]) -> list[str]:
    wrong = []
    if len(lines) != len(logged):
        wrong.append(f"{len(lines)} rounds, but {len(logged)} predictions")
    if [line["round"] for line in lines] != list(range(1, len(lines) + 1)):
        wrong.append("the rounds are not numbered consecutively")
    if model["rounds_seen"] != len(lines):
        wrong.append(f"the model counts {model['rounds_seen']} rounds, the log has {len(lines)}")
    return wrong


async def _fold_violations(
    model: dict[str, Any], lines: list[dict[str, Any]], clients: list[httpx2.AsyncClient]
) -> list[str]:
    """Return a sentence per violation: a propensity or a worker's state differs from the fold of the log."""
    truth, wrong = Replay(model, tolerance=1e-9), []
    for line in lines:
        try:
            truth.add(line)
        except AssertionError:
            return [f"round {line['round']} has a propensity that its rounds_seen do not give"]
    for number, client in enumerate(clients):
        for context in np.random.default_rng(9).normal(size=(3, SIZE)).tolist():
            body = {"model": MODEL, "context": context, "include_distribution": True}
            answer = (await client.post("/predict", json=body)).json()
            if list(answer["distribution"].values()) != truth.distribution(context):
                wrong.append(f"the state of worker {number} is not the fold of the log")
    return wrong
