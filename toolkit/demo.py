"""`wager demo`: shows how a model learns, over HTTP."""

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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx2
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from service.json_values import JsonObject
from service.processes import tied_command
from toolkit import ToolError
from toolkit.remote import answered, key_header

DEFAULT_URL = "http://127.0.0.1:8000"

_CLASSES = 10
_DIMENSION = 20
_NOISE = 0.6  # root mean square length of the noise around a class centre of length 1
_CONNECTIONS = 8
_RECENT = 500  # the progress bar shows the accuracy over this many rounds
_STRETCHES = 10  # rows of the learning curve
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


class DemoError(ToolError):
    """The demonstration failed."""


@dataclass
class Results:
    """The outcomes of the rounds, in the order of the responses."""

    correct: list[bool] = field(default_factory=list)
    true_labels: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, true_label: str, correct: bool) -> None:
        """Count one round."""
        self.correct.append(correct)
        self.true_labels[true_label] += 1

    def accuracy(self, part: slice = slice(None)) -> float:
        """Return the accuracy, from 0 to 1, over a part of the rounds; 0 without rounds."""
        rounds = self.correct[part]
        return sum(rounds) / max(1, len(rounds))


def demo(
    url: Annotated[
        str | None, typer.Option(help="URL of the service. Unset: use one on port 8000, or start one.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of predictions.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated data.")] = 1,
    api_key: Annotated[
        str | None, typer.Option(envvar="WAGER_API_KEY", help="Key with the scope admin, if the service needs one.")
    ] = None,
) -> None:
    """Watch a model learn ten classes from right-or-wrong feedback, over HTTP."""
    run(url, rounds, seed, api_key)


def run(url: str | None, rounds: int, seed: int, api_key: str | None = None) -> None:
    """Teach a new model for `rounds` rounds, and print its accuracy. A service that already ran keeps the model."""
    console = Console(highlight=False)
    name = f"demo-{secrets.token_hex(4)}"
    headers = key_header(api_key)
    with _service(url, console) as (base, stays), answered(base):
        client = httpx2.AsyncClient(base_url=base, timeout=30.0, headers=headers)
        results = asyncio.run(_teach(client, name, rounds, seed, console))
    requests, seconds = 2 * rounds, results.seconds
    console.print()
    console.print(_learning_curve(results))
    console.print(
        f"{requests} requests in {seconds:.1f} s, {requests / max(seconds, 1e-9):.0f} a second, over {_CONNECTIONS} "
        "connections"
    )
    if stays:
        key = "" if api_key is None else ' -H "X-API-Key: $WAGER_API_KEY"'
        console.print(
            f"\nThe model stays: see it on the dashboard at {base}/#/models/{name}\n"
            f"Delete it with: curl -X DELETE{key} {base}/models/{name}",
            soft_wrap=True,
        )


def examples(rounds: int, seed: int) -> Iterator[tuple[list[float], str]]:
    """Yield `rounds` contexts with their true labels. A context is a noisy point near a centre, scaled to length 1."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((_CLASSES, _DIMENSION))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    for _ in range(rounds):
        k = int(rng.integers(_CLASSES))
        x = centres[k] + _NOISE / _DIMENSION**0.5 * rng.standard_normal(_DIMENSION)
        yield (x / np.linalg.norm(x)).tolist(), f"label-{k}"


async def _teach(client: httpx2.AsyncClient, name: str, rounds: int, seed: int, console: Console) -> Results:
    """Play rounds with a new model over several concurrent connections."""
    results, stream = Results(), examples(rounds, seed)
    columns = (
        TextColumn("Learning  "), BarColumn(20), MofNCompleteColumn(),
        TextColumn(f"last {_RECENT} right: {{task.fields[accuracy]:.1%}}"), TimeRemainingColumn(),
    )  # fmt: skip
    async with client:
        await _create(client, name, console)
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("learning", total=rounds, accuracy=0.0)

            async def play() -> None:
                for context, true_label in stream:
                    results.add(true_label, await _round(client, name, context, true_label))
                    progress.update(bar, advance=1, accuracy=results.accuracy(slice(-_RECENT, None)))

            began = time.perf_counter()
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(_CONNECTIONS):
                        group.create_task(play())
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
            results.seconds = time.perf_counter() - began
    return results


async def _create(client: httpx2.AsyncClient, name: str, console: Console) -> None:
    """Create a model with the default learner."""
    labels = [f"label-{k}" for k in range(_CLASSES)]
    definition = {"name": name, "labels": labels, "features": {"kind": "dense", "size": _DIMENSION}}
    model = await _call(client, "/models", definition)
    console.print(
        f"Model      {name}, learner {model['learner']['algorithm']}\n"
        f"Data       {_DIMENSION} numbers, one of {_CLASSES} labels: noisy points around centres\n"
        "Feedback   one bit a round, right or wrong; true labels are not sent\n"
    )


async def _round(client: httpx2.AsyncClient, model: str, context: list[float], true_label: str) -> bool:
    prediction = await _call(client, "/predict", {"model": model, "context": context})
    correct = bool(prediction["label"] == true_label)
    await _call(client, "/feedback", {"prediction_id": prediction["prediction_id"], "correct": correct})
    return correct


async def _call(client: httpx2.AsyncClient, path: str, body: JsonObject) -> Any:
    response = await client.post(path, json=body)
    if response.is_success:
        return response.json()
    raise DemoError(f"POST {path} returned {response.status_code}: {response.text}")


def _learning_curve(results: Results) -> Table:
    table, rounds = Table("rounds", "right", ""), len(results.correct)
    n = min(_STRETCHES, rounds)
    stretches = [slice(rounds * i // n, rounds * (i + 1) // n) for i in range(n)]
    rows = [(f"{each.start + 1} to {each.stop}", results.accuracy(each)) for each in stretches]
    best = max(results.true_labels.values(), default=0) / max(1, rounds)
    rows += [("all rounds", results.accuracy()), ("always the best label", best), ("guessing", 1 / _CLASSES)]
    for i, (name, accuracy) in enumerate(rows, 1):
        table.add_row(
            name, f"{accuracy:6.1%}", ProgressBar(total=1.0, completed=accuracy, width=40), end_section=i == n
        )
    return table


@contextlib.contextmanager
def _service(url: str | None, console: Console) -> Iterator[tuple[str, bool]]:
    """Yield the URL of a ready service, which is started if necessary, and whether it keeps running afterwards."""
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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    base, log = f"http://127.0.0.1:{port}", folder / "service.log"
    console.print(f"Service    {base}, started for this demonstration")
    options = ["--host", "127.0.0.1", "--port", port, "--data-dir", str(folder / "data")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            tied_command([sys.executable, "-m", "service", "serve", *options]),
            env={k: v for k, v in os.environ.items() if not k.startswith("WAGER_")},  # default settings only
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _is_ready(base):
            if process.poll() is not None or time.monotonic() > deadline:
                raise DemoError(f"the service did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)
        yield base, False
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(base: str) -> bool:
    """Check whether a ready Wager service answers at this URL."""
    try:
        return bool(httpx2.get(f"{base}/readyz", timeout=2.0).json()["status"] == "ready")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, LookupError, TypeError):
        return False
