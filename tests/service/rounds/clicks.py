"""A site that reports clicks only: `python -m tests.service.rounds.clicks` prints what its model learns.

Each visitor sees a headline. The site sends feedback for a click, and nothing otherwise.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import numpy as np

from service.background.due_models import expiry
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from tests.service.rounds.sessions import environment, session_cache
from tests.service.workers import Clock, worker

RATES = {"plain": 0.05, "question": 0.06, "number": 0.20, "quote": 0.04}
"""The probability of a click on each headline."""

BEST = max(RATES, key=RATES.__getitem__)
WINDOW = 60.0
VISITORS = 50
"""Visitors per step; after each step, the window of their predictions closes."""

STEPS = 120

BATCH, SHORT_WINDOW, BATCHES = 60, 4.0, 240
"""Visitors a second, of whom those of four seconds have open predictions, and the seconds."""


class Outcome(NamedTuple):
    """What a model learned."""

    rounds: int
    right: int
    best_share: float  # of the traffic of the last third that the best headline got


async def close_expired(store: RedisStore, clock: Clock) -> None:
    """Close what has expired by a clock, as a worker that has loaded no model does."""
    own = environment(store, clock, store_offset=lambda: clock.now - time.time())
    await expiry(own, session_cache(store, clock)).run()


async def visit(client: httpx2.AsyncClient, name: str, rng: np.random.Generator, visitors: int = VISITORS) -> list[str]:
    """Show a headline to each visitor of one step, and report the clicks; return the headlines."""
    body = {"model": name, "contexts": [[1.0]] * visitors}
    shown = (await client.post("/predict/batch", json=body)).raise_for_status().json()["predictions"]
    clicked = [each["prediction_id"] for each in shown if rng.random() < RATES[each["label"]]]
    feedback = [{"prediction_id": own, "correct": True} for own in clicked]
    if feedback:
        (await client.post("/feedback/batch", json={"feedback": feedback})).raise_for_status()
    return [each["label"] for each in shown]


async def run_site(store_url: str, name: str, steps: int, seed: int = 1, **policies: Any) -> Outcome:
    """Run a site over HTTP with a new model; return what it learned."""
    clock, store = Clock(), RedisStore(store_url, timeout=10.0)
    rng = np.random.default_rng([seed, 1])  # not the worker's random numbers
    definition = {"name": name, "labels": list(RATES), "features": {"kind": "dense", "size": 1}}
    shown: list[str] = []
    async with worker(store_url, clock, seed) as client:
        body = definition | {"window_seconds": WINDOW} | policies
        (await client.post("/models", json=body)).raise_for_status()
        for _ in range(steps):
            shown += await visit(client, name, rng)
            clock.now += WINDOW + 10.0
            await close_expired(store, clock)
        model = (await client.get(f"/models/{name}")).json()
    await store.close()
    recent = shown[-len(shown) // 3 :]
    return Outcome(model["rounds_seen"], model["correct"], recent.count(BEST) / len(recent))


async def best_shares(store_url: str, name: str, **policies: str) -> list[float]:
    """Run a site whose predictions overlap; return the share of the best headline in each batch of the second half."""
    clock, store, rng = Clock(), RedisStore(store_url, timeout=10.0), np.random.default_rng(5)
    definition = {"name": name, "labels": list(RATES), "features": {"kind": "dense", "size": 1}}
    clicks = {"on_expiry": "incorrect", "window_seconds": SHORT_WINDOW}
    found: list[float] = []
    async with worker(store_url, clock) as client:
        (await client.post("/models", json=definition | clicks | policies)).raise_for_status()
        for _ in range(BATCHES):
            found.append((await visit(client, name, rng, BATCH)).count(BEST) / BATCH)
            clock.now += 1.0
            await close_expired(store, clock)
    await store.close()
    return found[BATCHES // 2 :]


def main() -> None:
    """Print the figures of the policies."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server:
        for policy in ("drop", "incorrect"):
            found = asyncio.run(run_site(server.url, f"site-{policy}", STEPS, on_expiry=policy))
            share = f"{100 * found.best_share:.1f} % of the traffic on the best headline"
            print(f"on_expiry {policy:9}: {found.right} of {found.rounds} rounds right, {share}")  # noqa: T201
        for learn in ("on_arrival", "at_window_close"):
            shares = asyncio.run(best_shares(server.url, f"site-{learn}", learn=learn))
            others = sum(share < 0.5 for share in shares)
            mean = f"{100 * sum(shares) / len(shares):.1f} % of the traffic on the best headline"
            print(f"learn {learn:15}: {mean}, less than half of it in {others} of {len(shares)} seconds")  # noqa: T201


if __name__ == "__main__":
    main()
