"""Clients that load a service and record its replies, and the checks of the records at the end."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import httpx2
import numpy as np

from tests.chaos.clients import post
from tests.chaos.fold import Fold
from tests.chaos.history import Loss, Operation, Verdict
from tests.chaos.keyring import CROWD
from tests.chaos.logged import Line, count_violations, history_violations, read, read_log
from tests.chaos.recorder import Recorder, Sending, sending
from tests.service.sample_models import GAPTRON, SIZE

MODEL = "forest"

BATCHES, LARGE_BATCHES = 0.5, 0.75
"""The share of turns that are batches, and the share of large ones among them."""

CLOSED = 0.9
"""The share of batches of which no prediction stays open: the bytes of the others must stay below their maximum."""

SMALL, LARGE = (1, 6), (100, 201)
"""Ranges of the sizes of batches."""


class Report(NamedTuple):
    """The counts of one run."""

    rounds: int  # rounds in the log
    acknowledged: int  # predictions with acknowledged feedback
    lost: list[str]  # ids acknowledged but not in the log
    renewed: list[str]  # ids lost and then recorded again as another round
    wrong: list[str]  # other violations, as sentences
    requests: Counter[str]  # requests by status or error


class Crowd(Recorder):
    """Clients that predict, give duplicated, shuffled and contradictory feedback, and repeat unanswered requests."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": GAPTRON}
    count = 8

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        play = self._play_batch if rng.random() < BATCHES else self._play_round
        await play(client, rng, own)

    async def _play_round(self, client: httpx2.AsyncClient, rng: np.random.Generator, own: str) -> None:
        context = rng.normal(size=SIZE).tolist()
        prediction = sending("/predict", {"model": MODEL, "context": context, "prediction_id": own}, [(own, None)])
        await self._together(client, rng, [prediction] * int(rng.integers(1, 3)))
        bits = (rng.random(int(rng.integers(1, 4))) < 0.7).tolist()
        await self._together(client, rng, [sending("/feedback", feedback_body(own, bit), [(own, bit)]) for bit in bits])

    async def _play_batch(self, client: httpx2.AsyncClient, rng: np.random.Generator, prefix: str) -> None:
        owns = [f"{prefix}-{i}" for i in range(int(rng.integers(*(LARGE if rng.random() < LARGE_BATCHES else SMALL))))]
        contexts = rng.normal(size=(len(owns), SIZE)).tolist()
        body = {"model": MODEL, "contexts": contexts, "prediction_ids": owns}
        await self._together(client, rng, [sending("/predict/batch", body, [(own, None) for own in owns])])
        feedback = [_feedback(owns, rng) for _ in range(int(rng.integers(1, 3)))]
        await self._together(client, rng, feedback)
        left = sorted({*owns} - {own for each in feedback for own, _ in each.about})
        if left and rng.random() < CLOSED:
            pairs = [(own, True) for own in left]
            await self._together(client, rng, [_feedback_of(pairs)])


def _feedback(owns: Sequence[str], rng: np.random.Generator) -> Sending:
    """Return feedback about most of the predictions in a random order, some of it twice."""
    n = len(owns)
    chosen = [*rng.permutation(n)[n // 10 :].tolist(), *rng.integers(n, size=1 + n // 10).tolist()]
    bits = (rng.random(len(chosen)) < 0.7).tolist()
    return _feedback_of([(owns[i], bit) for i, bit in zip(chosen, bits, strict=True)])


def _feedback_of(pairs: Sequence[tuple[str, bool]]) -> Sending:
    return sending("/feedback/batch", {"feedback": [feedback_body(*pair) for pair in pairs]}, pairs)


def feedback_body(own: str, correct: bool) -> dict[str, Any]:
    """Return the body of a feedback."""
    return {"prediction_id": f"{MODEL}:{own}", "correct": correct}


async def judge(crowd: Crowd, clients: list[httpx2.AsyncClient], losses: Sequence[Loss] = ()) -> Report:
    """Check the log, the counters and every worker's state against the clients' records.

    Args:
        crowd: crowd that has finished.
        clients: one client per worker.
        losses: times at which the store may have lost something.
    """
    for client in clients:
        client.headers["X-API-Key"] = CROWD
    model = (await read(clients[0], f"/models/{MODEL}")).json()
    lines = await read_log(clients[0], MODEL)
    wrong = count_violations(model, lines) + history_violations(crowd, lines, losses)
    wrong += await _fold_violations(model, lines, clients)
    acknowledged, logged = _acknowledged(crowd.history), {line.own: line.round for line in lines}
    lost = sorted(acknowledged.keys() - logged.keys())
    renewed = [own for own in acknowledged.keys() & logged.keys() if acknowledged[own] != {logged[own]}]
    return Report(len(lines), len(acknowledged), lost, renewed, wrong, crowd.requests)


def _acknowledged(history: list[Operation]) -> dict[str, set[int]]:
    """Return the acknowledged rounds per prediction: one each, unless something was lost."""
    rounds: defaultdict[str, set[int]] = defaultdict(set)
    for each in history:
        if isinstance(each.reply, Verdict) and each.reply.round is not None:
            rounds[each.prediction_id].add(each.reply.round)
    return rounds


async def _fold_violations(
    model: dict[str, Any], lines: Sequence[Line], clients: list[httpx2.AsyncClient]
) -> list[str]:
    """Return a sentence per violation: a propensity or a worker's state differs from the fold of the log."""
    if not lines:
        return ["the log is empty"]
    truth = Fold(model, lines)
    wrong = [f"round {number} has a propensity that its rounds_seen do not give" for number in truth.run()]
    for number, client in enumerate(clients):
        for context in np.random.default_rng(9).normal(size=(3, SIZE)).tolist():
            body = {"model": MODEL, "context": context, "include_distribution": True}
            answer = await post(client, "/predict", body)
            if list(answer.get("distribution", answer).values()) != truth.distribution(context):
                wrong.append(f"the state of worker {number} is not the fold of the log: {answer}")
    return wrong
