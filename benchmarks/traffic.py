"""The model that most benchmarks use, its requests, and a closed loop that sends them."""

import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import httpx2
import numpy as np

from benchmarks.server import Server
from toolkit.load.client import OK, Client, Target

CONNECTIONS, K, D = 32, 10, 20
REPEATS = 5


class Shape(NamedTuple):
    """The size of a model with dense contexts."""

    K: int
    d: int

    def __str__(self) -> str:
        return f"K={self.K}, d={self.d}"

    def contexts(self, n: int, seed: int) -> list[list[float]]:
        """Return n contexts as a client sends them."""
        found: list[list[float]] = np.random.default_rng(seed).normal(size=(n, self.d)).round(4).tolist()
        return found


SMALL = Shape(K, D)


def post(path: str, body: bytes) -> bytes:
    """Return the bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def create_model(server: Server, name: str, shape: Shape = SMALL, retain_rounds: int = 100_000, **learner: Any) -> None:
    """Create a model of that shape."""
    body = {
        "name": name,
        "labels": [f"label-{k}" for k in range(shape.K)],
        "features": {"kind": "dense", "size": shape.d, "norm": "scale"},
        "learner": learner,
        "retain_rounds": retain_rounds,
    }
    httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body).raise_for_status()


def prediction_bodies(names: Sequence[str], n: int, seed: int, shape: Shape = SMALL) -> list[bytes]:
    """Return the bodies of n requests for a prediction, of these models in turn."""
    named = zip(itertools.cycle(names), shape.contexts(n, seed), strict=False)
    return [json.dumps({"model": name, "context": context}).encode() for name, context in named]


def predictions(names: Sequence[str], n: int, seed: int, shape: Shape = SMALL) -> Iterator[bytes]:
    """Return n requests for a prediction, of these models in turn."""
    return iter([post("/predict", body) for body in prediction_bodies(names, n, seed, shape)])


def feedback_body(answer: bytes, i: int) -> bytes:
    """Return the feedback for prediction number i; one in three is right."""
    return json.dumps({"prediction_id": json.loads(answer)["prediction_id"], "correct": i % 3 == 0}).encode()


def feedback_bodies(answers: Iterable[bytes]) -> list[bytes]:
    """Return the feedback for each prediction."""
    return [feedback_body(answer, i) for i, answer in enumerate(answers)]


def feedback(answers: Iterable[bytes]) -> Iterator[bytes]:
    """Return requests with the feedback for each prediction."""
    return iter([post("/feedback", body) for body in feedback_bodies(answers)])


class Played(NamedTuple):
    """The answers to some requests, and the seconds until each of them."""

    seconds: float  # of all together
    answers: list[bytes]
    latencies: list[float]
    feedback_latencies: list[float]  # of feedback in between

    @property
    def rate(self) -> float:
        """The answers per second."""
        return len(self.answers) / self.seconds


async def drive(port: int, requests: Iterator[bytes], connections: int, in_turn: bool = False) -> Played:
    """Send requests to 127.0.0.1 over a number of connections, as `play` does."""
    async with Client(Target.parse(f"http://127.0.0.1:{port}"), connections) as client:
        return await play(connections * [client], requests, in_turn)


async def play(clients: Sequence[Client], requests: Iterator[bytes], in_turn: bool = False) -> Played:
    """Send requests, each as soon as the last one of the same client is answered.

    Args:
        clients: each sends one request at a time. The same client may occur several times, if it has the connections.
        requests: shared by the clients.
        in_turn: the requests are predictions, and each client gives feedback on its prediction before the next one.

    Raises:
        RuntimeError: if an answer has another status than 200; the message holds the answer.
    """
    played = Played(0.0, [], [], [])

    async def converse(client: Client) -> None:
        for i, request in enumerate(requests):
            answer = await _timed(client, request, played.latencies)
            played.answers.append(answer)
            if in_turn:
                await _timed(client, post("/feedback", feedback_body(answer, i)), played.feedback_latencies)

    started = time.perf_counter()
    await asyncio.gather(*(converse(client) for client in clients))
    return played._replace(seconds=time.perf_counter() - started)


async def _timed(client: Client, request: bytes, latencies: list[float]) -> bytes:
    started = time.perf_counter()
    body = await ask(client, request)
    latencies.append(time.perf_counter() - started)
    return body


async def ask(client: Client, request: bytes) -> bytes:
    """Send a request; return the body of its answer.

    Raises:
        RuntimeError: if the status is not 200; the message holds the answer.
    """
    answer = await client.ask(request)
    if answer.status != OK:
        raise RuntimeError(f"{answer.status or 'no answer'}: {answer.body.decode(errors='replace')}")
    return answer.body
