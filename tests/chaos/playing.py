"""One run: clients use the service while faults follow one another, and then everything is checked."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.chaos.clients import connect
from tests.chaos.faults.fault import Fault, MissedError
from tests.chaos.history import Loss
from tests.chaos.hoarding import MAXIMUM
from tests.chaos.hooks import SECRET
from tests.chaos.keyring import issue_keys
from tests.chaos.others import Judged
from tests.chaos.world import Crowd, Report, judge
from tests.servers import wait_until
from tests.service.wager import Wager, clients_of_each, serve

PATIENCE = {"WAGER_STORE_TIMEOUT_SECONDS": "0.5"}

GUARDED = {
    "WAGER_AUTH": "required",
    "WAGER_MAX_REQUESTS_IN_FLIGHT": "200",
    "WAGER_WEBHOOK_SECRETS": SECRET,
    "WAGER_MAX_OPEN_BYTES": str(MAXIMUM),
}
"""Keys are required, and places and bytes of open predictions are few but enough for the crowd."""

KILLS = frozenset({"killed worker", "killed store"})
"""Faults that are injected twice as often as others."""

RETURN = 240.0
"""Seconds within which all workers must serve again: the supervisor may need 35 seconds for each."""


class Length(NamedTuple):
    """How long a run is, and how hard it is on the service.

    Attributes:
        seconds: duration of the faults.
        seed: seed of the faults and of the clients.
        workers: workers of the service.
        pauses: shortest and longest time between two faults, in seconds.
        kinds: number of different faults that a run injects, even if it takes longer.
        keep: folder for the requests and replies that nothing explains; None: they are not kept.
    """

    seconds: float
    seed: int
    workers: int = 2
    pauses: tuple[float, float] = (0.1, 0.5)
    kinds: int = 0
    keep: Path | None = None


@asynccontextmanager
async def served(folder: Path, workers: int, module: str = "service", **environment: str) -> AsyncIterator[Wager]:
    """Run the service, starting and stopping it in a thread, because the store's proxy runs in this event loop."""
    with ExitStack() as stack:
        environment = PATIENCE | environment
        yield await asyncio.to_thread(stack.enter_context, serve(folder, workers, module, **environment))
        await asyncio.to_thread(stack.close)


@asynccontextmanager
async def guarded(
    folder: Path, workers: int, store_url: str, module: str = "service", **environment: str
) -> AsyncIterator[Wager]:
    """Run the service so that it requires keys, of which the store has those of the clients."""
    await issue_keys(store_url)
    async with served(folder, workers, module, WAGER_STORE_URL=store_url, **GUARDED, **environment) as wager:
        yield wager


async def play(
    wager: Wager,
    faults: Mapping[str, Fault],
    length: Length,
    others: Sequence[type[Judged]] = (),
    losses: Sequence[Loss] = (),
    older: Wager | None = None,
) -> tuple[Report, Counter[str]]:
    """Run the crowd and other clients while faults follow one another; then check everything.

    Args:
        wager: the service.
        faults: faults to inject, by name.
        length: duration, seed and pauses.
        others: classes of clients that play beside the crowd.
        losses: the time spans at which the store may have lost something; faults may append to it.
        older: an older version of the service on the same store, which the clients use as well.

    Returns:
        The report, and how often each fault was injected.
    """
    url = wager.url if older is None else f"{older.url} {wager.url}"
    crowd, injected = Crowd(url, length.seed), Counter[str]()
    beside = [each(url, length.seed) for each in others]
    everyone: list[Judged | Crowd] = [crowd, *beside]
    for each in everyone:
        await each.create_model()
    playing = [asyncio.create_task(each.play()) for each in everyone]
    try:
        await inject(faults, length, injected)
    except BaseException:  # clients would hide it, because they repeat requests for minutes
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        raise
    for each in everyone:
        each.over = True
    await asyncio.gather(*playing)
    report = await _judge_crowd(wager, crowd, length, losses)
    async with connect(wager.url, timeout=60.0) as client:
        wrong = [line for each in beside for line in await each.violations(client)]
    return report._replace(wrong=[*report.wrong, *wrong]), injected


async def _judge_crowd(wager: Wager, crowd: Crowd, length: Length, losses: Sequence[Loss]) -> Report:
    """Wait until every worker serves, and check what the crowd has seen."""
    await asyncio.to_thread(wait_until, lambda: len(wager.worker_pids()) == length.workers, RETURN)
    await asyncio.to_thread(wait_until, wager.is_ready, RETURN)
    async with clients_of_each(wager, length.workers, patience=RETURN) as clients:  # a worker compiles when it starts
        report = await judge(crowd, clients, losses)
    if report.wrong and length.keep is not None:
        _keep(crowd, report, losses, length.keep / f"unexplained-{length.seed}.json")
    return report


async def inject(faults: Mapping[str, Fault], length: Length, injected: Counter[str]) -> None:
    """Inject every fault in turn, kills twice, in a new random order each time, with pauses in between."""
    names = sorted([*faults, *(KILLS & faults.keys())])
    chance, end = random.Random(length.seed), time.monotonic() + length.seconds
    while True:
        for name in chance.sample(names, len(names)):
            await asyncio.sleep(chance.uniform(*length.pauses))
            if time.monotonic() > end and len(injected) >= length.kinds:
                return
            try:
                await faults[name]()
            except MissedError:
                continue
            injected[name] += 1


def _keep(crowd: Crowd, report: Report, losses: Sequence[Loss], file: Path) -> None:
    """Write what is wrong, every request and reply about a prediction that it names, and the losses."""
    words = {word for line in report.wrong for word in line.split()}
    requests = [
        {
            "prediction_id": each.prediction_id,
            "correct": each.correct,
            "begun": each.begun,
            "ended": each.ended,
            "reply": each.reply,
        }
        for each in crowd.history
        if each.prediction_id in words
    ]
    file.write_text(json.dumps({"wrong": report.wrong, "losses": losses, "requests": requests}, indent=1))
