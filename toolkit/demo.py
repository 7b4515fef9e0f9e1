"""`wager demo`: shows a model learn, through the HTTP interface."""

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from service.processes import tied_command

DEFAULT_URL = "http://127.0.0.1:8000"

_CLASSES = 10
_DIMENSION = 20
_NOISE = 0.6  # length of the noise added to a class centre of length 1
_CONNECTIONS = 8
_RECENT = 500  # rounds in the accuracy of the progress bar
_STRETCHES = 10  # rows of the learning curve
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


class DemoError(Exception):
    """The demonstration failed; the message has the reason."""


@dataclass
class Results:
    """The outcomes of the rounds, in the order of their responses."""

    correct: list[bool] = field(default_factory=list)
    true_labels: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, true_label: str, correct: bool) -> None:
        """Count one round."""
        self.correct.append(correct)
        self.true_labels[true_label] += 1

    def accuracy(self, part: slice = slice(None)) -> float:
        """Return the accuracy, from 0 to 1, over a part of the rounds."""
        rounds = self.correct[part]
        return sum(rounds) / max(1, len(rounds))

    def best_single_label(self) -> float:
        """Return the accuracy of the most frequent true label."""
        return max(self.true_labels.values(), default=0) / max(1, len(self.correct))


def run(url: str | None, rounds: int, seed: int, api_key: str | None = None) -> None:
    """Teach a new model for `rounds` rounds and print its accuracy. The model stays, if the service does.

    Args:
        url: URL of a running service. None means the one at `DEFAULT_URL`, or else a temporary one on empty data.
        rounds: number of predictions, each followed by its feedback.
        seed: seed of the generated contexts and labels.
        api_key: sent with each request.
    """
    console = Console(highlight=False)
    name = f"demo-{secrets.token_hex(4)}"
    with _service(url, console) as (base, stays):
        try:
            results = asyncio.run(_teach(_client(base, api_key), name, rounds, seed, console))
        except httpx2.HTTPError as error:
            raise DemoError(f"{base} does not answer: {error!r}") from error
    console.print()
    console.print(_learning_curve(results))
    console.print(_speed(results))
    if stays:
        console.print(_where(base, name, api_key), soft_wrap=True)


def examples(rounds: int, seed: int) -> Iterator[tuple[list[float], str]]:
    """Yield `rounds` contexts of length 1, with their true labels: noisy points around centres."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((_CLASSES, _DIMENSION))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    for _ in range(rounds):
        k = int(rng.integers(_CLASSES))
        x = centres[k] + _NOISE / _DIMENSION**0.5 * rng.standard_normal(_DIMENSION)
        yield (x / np.linalg.norm(x)).tolist(), f"label-{k}"


def _client(base: str, api_key: str | None) -> httpx2.AsyncClient:
    headers = {} if api_key is None else {"X-API-Key": api_key}
    return httpx2.AsyncClient(base_url=base, timeout=30.0, headers=headers)


async def _teach(client: httpx2.AsyncClient, name: str, rounds: int, seed: int, console: Console) -> Results:
    results = Results()
    stream = examples(rounds, seed)
    async with client:
        console.print(_introduction(await _create(client, name)))
        with _progress(console) as progress:
            bar = progress.add_task("learning", total=rounds, accuracy=0.0)

            def record(true_label: str, correct: bool) -> None:
                results.add(true_label, correct)
                progress.update(bar, advance=1, accuracy=results.accuracy(slice(-_RECENT, None)))

            started = time.perf_counter()
            await _play_all(client, name, stream, record)
            results.seconds = time.perf_counter() - started
    return results


async def _play_all(
    client: httpx2.AsyncClient,
    model: str,
    stream: Iterator[tuple[list[float], str]],
    record: Callable[[str, bool], None],
) -> None:
    """Play the stream over several concurrent connections."""

    async def play() -> None:
        for context, true_label in stream:
            record(true_label, await _round(client, model, context, true_label))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(play())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _round(client: httpx2.AsyncClient, model: str, context: list[float], true_label: str) -> bool:
    prediction = await _call(client, "/predict", {"model": model, "context": context})
    correct = bool(prediction["label"] == true_label)
    feedback = {"prediction_id": prediction["prediction_id"], "correct": correct}
    await _call(client, "/feedback", feedback)
    return correct


async def _create(client: httpx2.AsyncClient, name: str) -> Any:
    """Create a model with the default learner; return its description."""
    definition = {
        "name": name,
        "labels": [f"label-{k}" for k in range(_CLASSES)],
        "features": {"kind": "dense", "size": _DIMENSION},
    }
    return await _call(client, "/models", definition)


async def _call(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    response = await client.post(path, json=body)
    if response.is_success:
        return response.json()
    raise DemoError(f"POST {path} returned {response.status_code}: {response.text}")


def _where(base: str, name: str, api_key: str | None) -> str:
    key = "" if api_key is None else ' -H "X-API-Key: $WAGER_API_KEY"'
    return (
        f"\nThe model stays: see it on the dashboard at {base}/#/models/{name}\n"
        f"Delete it with: curl -X DELETE{key} {base}/models/{name}"
    )


def _introduction(model: dict[str, Any]) -> str:
    return (
        f"Model      {model['name']}, learner {model['learner']['algorithm']}\n"
        f"Data       {_DIMENSION} numbers, one of {_CLASSES} labels: noisy points around centres\n"
        "Feedback   one bit a round, right or wrong; true labels are not sent\n"
    )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("Learning  "),
        BarColumn(20, finished_style="bar.complete"),
        MofNCompleteColumn(),
        TextColumn(f"last {_RECENT} right: {{task.fields[accuracy]:.1%}}"),
        TimeRemainingColumn(),
        console=console,
    )


def _learning_curve(results: Results) -> Table:
    table = Table("rounds", "right", "")
    for part in _stretches(len(results.correct)):
        _add_row(table, f"{part.start + 1} to {part.stop}", results.accuracy(part))
    table.add_section()
    _add_row(table, "all rounds", results.accuracy())
    _add_row(table, "always the best label", results.best_single_label())
    _add_row(table, "guessing", 1 / _CLASSES)
    return table


def _stretches(rounds: int) -> list[slice]:
    """Split the rounds into parts of about the same length."""
    n = min(_STRETCHES, rounds)
    return [slice(rounds * i // n, rounds * (i + 1) // n) for i in range(n)]


def _add_row(table: Table, name: str, accuracy: float) -> None:
    bar = ProgressBar(total=1.0, completed=accuracy, width=40, finished_style="bar.complete")
    table.add_row(name, f"{accuracy:6.1%}", bar)


def _speed(results: Results) -> str:
    requests = 2 * len(results.correct)
    per_second = requests / max(results.seconds, 1e-9)
    return f"{requests} requests in {results.seconds:.1f} s, {per_second:.0f} a second, over {_CONNECTIONS} connections"


@contextlib.contextmanager
def _service(url: str | None, console: Console) -> Iterator[tuple[str, bool]]:
    """Yield the URL of a ready service, the given one, a running one, or a new one, and whether it stays."""
    base = (url or DEFAULT_URL).rstrip("/")
    if _is_ready(base):
        console.print(f"Service    {base}")
        yield base, True
    elif url is not None:
        raise DemoError(f"no service is ready at {url}")
    else:
        with tempfile.TemporaryDirectory(prefix="wager-demo-") as folder:
            yield from _own_service(Path(folder), console)


def _own_service(folder: Path, console: Console) -> Iterator[tuple[str, bool]]:
    port = _free_port()
    console.print(f"Service    http://127.0.0.1:{port}, started for this demonstration")
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(
            tied_command(_serve_command(port, folder / "data")),
            env={k: v for k, v in os.environ.items() if not k.startswith("WAGER_")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield _wait_until_ready(process, f"http://127.0.0.1:{port}", folder / "service.log"), False
    finally:
        _end(process)


def _serve_command(port: int, data_dir: Path) -> list[str]:
    options = ["--host", "127.0.0.1", "--port", str(port), "--data-dir", str(data_dir)]
    return [sys.executable, "-m", "service", "serve", *options]


def _wait_until_ready(process: subprocess.Popen[bytes], base: str, log: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while not _is_ready(base):
        if process.poll() is not None or time.monotonic() > deadline:
            raise DemoError(f"the service did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)
    return base


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_ready(base: str) -> bool:
    """Check whether a ready Wager answers at this URL."""
    try:
        return bool(httpx2.get(f"{base}/readyz", timeout=2.0).json()["status"] == "ready")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, LookupError, TypeError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
