"""What the log says in the end, in little memory, and its agreement with the clients' records."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import httpx2

from tests.chaos.checker import unexplained
from tests.chaos.clients import patient
from tests.chaos.history import UNRECORDED, Answer, Loss, Operation, Verdict
from tests.chaos.recorder import Recorder

PAGE = 10_000
"""Rounds read at once: the maximum."""


class Line(NamedTuple):
    """What the checks need of one round in the log."""

    round: int
    own: str  # the client's id of the prediction
    label: str
    propensity: float
    reward: float
    rounds_seen: int
    context: Any


async def read(client: httpx2.AsyncClient, path: str, **parameters: int) -> httpx2.Response:
    """Read a resource, repeating while the store is unavailable, also in the middle of a long answer."""
    async with patient(path):
        while True:
            with contextlib.suppress(httpx2.TransportError):
                response = await client.get(path, params=parameters)
                if response.status_code != 503:
                    return response.raise_for_status()
            await asyncio.sleep(0.1)


async def read_log(client: httpx2.AsyncClient, model: str) -> list[Line]:
    """Read all rounds of a model, the oldest first."""
    return [to_line(line) async for line in lines_of(client, model)]


async def lines_of(client: httpx2.AsyncClient, model: str) -> AsyncIterator[dict[str, Any]]:
    """Yield all rounds of a model as the service answers them, the oldest first."""
    after = 0
    while text := (await read(client, f"/models/{model}/rounds", after=after, limit=PAGE)).text:
        for line in text.splitlines():
            read_line: dict[str, Any] = json.loads(line)
            yield read_line
        after = read_line["round"]


def to_line(line: Mapping[str, Any]) -> Line:
    """Return what the checks need of a line of the log."""
    own, label = line["prediction_id"].partition(":")[2], sys.intern(line["label"])
    context = tuple(line["context"]) if isinstance(line["context"], list) else line["context"]
    return Line(line["round"], own, label, line["propensity"], line["reward"], line["rounds_seen"], context)


def count_violations(model: Mapping[str, Any], lines: Sequence[Line]) -> list[str]:
    """Return a sentence for each count that is wrong; `model` is the answer of `GET /models/{name}`."""
    wrong, predictions = list[str](), len({line.own for line in lines})
    if len(lines) != predictions:
        wrong.append(f"{len(lines)} rounds, but {predictions} predictions")
    if any(line.round != number for number, line in enumerate(lines, 1)):
        wrong.append("the rounds are not numbered consecutively")
    if model["rounds_seen"] != len(lines):
        wrong.append(f"the model counts {model['rounds_seen']} rounds, the log has {len(lines)}")
    return wrong


def history_violations(recorder: Recorder, lines: Sequence[Line], losses: Sequence[Loss] = ()) -> list[str]:
    """Return a sentence for each prediction whose replies and round no order explains, or that nobody made."""
    logged = {line.own: line for line in lines}
    never_made = logged.keys() - {each.prediction_id for each in recorder.history}
    wrong = [f"{own} is in the log, but was never made" for own in never_made]
    bad = unexplained(recorder.history, losses, replies_of(logged))
    return wrong + [f"no order explains {own}" for own in bad]


def replies_of(logged: Mapping[str, Line]) -> Callable[[str], Iterator[Operation]]:
    """Return the log's record of a prediction, as replies to a client that asks now."""
    now = time.monotonic()

    def replies(own: str) -> Iterator[Operation]:
        line = logged.get(own)
        if line is None:
            yield Operation(own, True, now, now, UNRECORDED)
        else:
            yield Operation(own, None, now, now, Answer(line.label, line.propensity))
            yield Operation(own, line.reward, now, now, Verdict("duplicate", line.reward, line.round))

    return replies


async def record_violations(recorder: Recorder, client: httpx2.AsyncClient, fewest: int = 1) -> list[str]:
    """Compare the log and the counts of a model with its clients' records; return sentences.

    Args:
        recorder: clients that have finished.
        client: a client with a key.
        fewest: rounds that there must be.
    """
    lines = await read_log(client, recorder.model)
    model = (await read(client, f"/models/{recorder.model}")).json()
    few = [] if len(lines) >= fewest else [f"{recorder.model} has only {len(lines)} rounds"]
    return few + count_violations(model, lines) + history_violations(recorder, lines)
