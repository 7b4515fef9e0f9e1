"""The law of several workers: with duplicated, shuffled and contradicting feedback, each prediction counts once."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import numpy as np
import pytest

from learners.base import Contexts
from learners.codec import encode_state
from service.models.reading import stored_model
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import StoredModel
from service.store.values import LogEntry
from tests.servers import wait_until
from tests.service.sample_models import (
    GAPTRON,
    SOBA_DIAGONAL,
    definition,
    distribution_of,
    sequential_fold,
    some_contexts,
    whole_log,
)
from tests.service.wager import Wager, clients_of_each, serve

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes and connections in /proc")

WORKERS = 4
CONNECTIONS = 16
ROUNDS = 250
X = [0.6, 0.8, 0.0]


@pytest.fixture(scope="module")
def wager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wager]:
    """Run `wager serve --workers 4` on its embedded store."""
    with serve(tmp_path_factory.mktemp("workers"), WORKERS) as running:
        yield running


class Acknowledged(NamedTuple):
    """An answer with status 200 to feedback."""

    prediction_id: str
    correct: bool
    reward: float
    status: str
    round: int


class Crowd:
    """Clients with one connection each, which share a list of tasks."""

    def __init__(self, wager: Wager, name: str, clients: Sequence[httpx2.AsyncClient]) -> None:
        self._wager = wager
        self.name = name
        self.clients = clients
        self.acknowledged: list[Acknowledged] = []
        self.refused: Counter[str] = Counter()
        self.newest_round = 0

    async def share(self, tasks: Sequence[Any]) -> None:
        """Do all tasks; each goes to the next free client, in order."""
        waiting = iter(tasks)

        async def work(client: httpx2.AsyncClient) -> None:
            for task in waiting:
                await (self._judge(client, *task) if isinstance(task, tuple) else self._predict(client, task))

        await asyncio.gather(*(work(client) for client in self.clients))

    async def wait_for_acknowledged(self, n: int) -> None:
        """Wait until n feedbacks are acknowledged in all."""
        await asyncio.to_thread(wait_until, lambda: len(self.acknowledged) >= n)

    async def _predict(self, client: httpx2.AsyncClient, body: dict[str, Any]) -> None:
        """Make a prediction, which must include every round acknowledged before it starts, by any worker."""
        newest = self.newest_round
        answer = await self._until_answered(client, "/predict", body)
        assert answer.status_code == 200, answer.text
        known = "prediction_id" in body  # a stored prediction may be older
        assert known or answer.json()["rounds_seen"] >= newest

    async def _judge(self, client: httpx2.AsyncClient, prediction_id: str, correct: bool) -> None:
        answer = await self._until_answered(client, "/feedback", {"prediction_id": prediction_id, "correct": correct})
        if answer.status_code == 200:
            self.acknowledged.append(Acknowledged(**answer.json()))
            self.newest_round = max(self.newest_round, answer.json()["round"])
        else:
            assert answer.status_code == 409, answer.text
            self.refused[prediction_id] += 1

    async def _until_answered(self, client: httpx2.AsyncClient, path: str, body: Any) -> httpx2.Response:
        """Repeat a request after a broken connection or status 503, as when its worker or the store was killed."""
        async with asyncio.timeout(60.0):
            while True:
                try:
                    response = await client.post(path, json=body)
                except httpx2.TransportError:
                    await asyncio.sleep(0.01)
                    continue
                if response.status_code != 503:
                    return response


@asynccontextmanager
async def crowd(wager: Wager, name: str, choice: dict[str, Any]) -> AsyncIterator[Crowd]:
    """Create a model, and yield sixteen clients, four per worker."""
    async with clients_of_each(wager, WORKERS, CONNECTIONS // WORKERS) as clients:
        (await clients[0].post("/models", json=definition(name, learner=choice))).raise_for_status()
        yield Crowd(wager, name, clients)


def doubled_shuffled_contradicted(name: str, seed: int) -> list[Any]:
    """Return shuffled tasks: one to four feedbacks per prediction, contradictory for half, and new predictions."""
    rng = np.random.default_rng(seed)
    feedback: list[Any] = []
    for number in range(ROUNDS):
        first = bool(rng.random() < 0.6)
        feedback += [(f"{name}:p{number}", first)] * int(rng.integers(1, 4))
        feedback += [(f"{name}:p{number}", not first)] * int(rng.integers(0, 2))
    requests = [{"model": name, "context": context} for context in some_contexts(seed, ROUNDS // 2)]
    tasks = feedback + requests
    return [tasks[i] for i in rng.permutation(len(tasks))]


def to_predict(name: str, seed: int) -> list[dict[str, Any]]:
    """Return requests for the predictions that later get feedback, each twice."""
    requests = [
        {"model": name, "context": context, "prediction_id": f"p{number}"}
        for number, context in enumerate(some_contexts(seed, ROUNDS))
    ]
    return [each for each in requests for _ in range(2)]


class Truth(NamedTuple):
    """The store's data about a model."""

    stored: StoredModel
    entries: list[LogEntry]
    snapshot: Any


async def truth_of(wager: Wager, name: str) -> Truth:
    """Read model, log and snapshot from the service's store."""
    store = RedisStore(wager.store_url, timeout=5.0)
    try:
        stored = await store.get_model(name)
        assert stored is not None
        return Truth(stored, await whole_log(store, stored.key), await store.load_snapshot(stored.key))
    finally:
        await store.close()


async def check_counts(crowd: Crowd) -> Truth:
    """Check that the log has each acknowledged feedback exactly once, as acknowledged."""
    truth = await truth_of(crowd._wager, crowd.name)
    lines = await read_log(crowd.clients[0], crowd.name)
    assert [line["round"] for line in lines] == list(range(1, len(lines) + 1))
    logged = {line["prediction_id"]: (line["correct"], line["round"]) for line in lines}
    assert len(lines) == len(logged) == truth.stored.round_count == len(truth.entries)
    assert {(each.prediction_id, (each.correct, each.round)) for each in crowd.acknowledged} == set(logged.items())
    assert sum(line["correct"] for line in lines) == truth.stored.correct
    return truth


async def read_log(client: httpx2.AsyncClient, name: str) -> list[dict[str, Any]]:
    """Return all lines of the log, page by page."""
    lines: list[dict[str, Any]] = []
    while True:
        after = lines[-1]["round"] if lines else 0
        text = (await client.get(f"/models/{name}/rounds", params={"after": after, "limit": 250})).text
        if not text:
            return lines
        lines += [json.loads(line) for line in text.splitlines()]


async def check_states(wager: Wager, crowd: Crowd, truth: Truth) -> None:
    """Check that every worker's state, and the snapshot, equal the sequential fold of the log to the bit."""
    model = stored_model(truth.stored)
    state = sequential_fold(model, truth.entries)
    contexts = some_contexts(99, 5)
    async with clients_of_each(wager, WORKERS) as clients:
        for client in clients:
            for context in contexts:
                body = {"model": crowd.name, "context": context, "include_distribution": True}
                answer = (await client.post("/predict", json=body)).json()
                assert answer["rounds_seen"] == len(truth.entries)
                seen = model.choice.prepared(Contexts.dense([context]))
                assert list(answer["distribution"].values()) == distribution_of(model.learner, state, seen)
    if truth.snapshot is not None:
        prefix = sequential_fold(model, truth.entries[: truth.snapshot.rounds])
        assert truth.snapshot.state == encode_state(model.learner, prefix)


@pytest.mark.parametrize("choice", [SOBA_DIAGONAL, GAPTRON], ids=lambda choice: str(choice["algorithm"]))
async def test_every_feedback_counts_once(wager: Wager, name: str, choice: dict[str, Any]) -> None:
    """Each prediction's first feedback is recorded exactly once; every worker folds the log to the same bits."""
    async with crowd(wager, name, choice) as people:
        await people.share(to_predict(name, seed=1))
        await people.share(doubled_shuffled_contradicted(name, seed=2))
        truth = await check_counts(people)
        recorded = Counter(each.prediction_id for each in people.acknowledged if each.status == "recorded")
        assert len(recorded) == ROUNDS
        assert set(recorded.values()) == {1}
        assert len(truth.entries) == ROUNDS
        await check_states(wager, people, truth)


async def test_a_killed_worker_loses_nothing(wager: Wager, name: str) -> None:
    """After `kill -9` of a worker under traffic, the log has every acknowledged feedback exactly once."""
    async with crowd(wager, name, SOBA_DIAGONAL) as people:
        await people.share(to_predict(name, seed=3))
        tasks = doubled_shuffled_contradicted(name, seed=4)
        sharing = asyncio.create_task(people.share(tasks))
        for _ in range(2):
            await people.wait_for_acknowledged(len(people.acknowledged) + 100)
            os.kill(wager.worker_pids()[0], signal.SIGKILL)
        await sharing
        truth = await check_counts(people)
        assert len(truth.entries) == ROUNDS
        await check_states(wager, people, truth)
