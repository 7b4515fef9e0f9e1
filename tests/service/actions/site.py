"""`python -m tests.service.actions.site`: a site whose items come and go, over HTTP, and its learning curve.

Each request brings 20 of 200 items. After every 100 requests, 20 items are replaced by new ones with new ids. A visitor
likes one topic and one price range; a click is more likely for items that fit.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import numpy as np

from service.store.embedded.server import EmbeddedServer
from tests.service.actions.catalogue import definition
from tests.service.workers import worker

TOPICS, BATCH, CANDIDATES, ITEMS = 8, 20, 20, 200


class Share(NamedTuple):
    """The mean chance of a click over some requests."""

    chosen: float
    best: float  # of the best item of each request
    uniform: float  # of an item chosen at random


def chance(visitor: dict[str, Any], features: dict[str, Any]) -> float:
    """Return the probability that a visitor clicks."""
    fits = 2.0 * (features["topic"] == visitor["likes"]) + 1.0 * ((features["price"] > 50) == visitor["rich"])
    return float(1.0 / (1.0 + np.exp(3.0 - 1.5 * fits)))


def new_item(rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Return an item that never was there before."""
    features = {
        "topic": f"t{rng.integers(TOPICS)}",
        "price": int(rng.integers(1, 100)),
        "brand": f"b{rng.integers(30)}",
    }
    return {"id": f"item-{number}", "features": features}


async def visit(client: httpx2.AsyncClient, name: str, rng: np.random.Generator, items: list[Any]) -> list[Share]:
    """Serve a batch of visitors, and report their clicks."""
    visitors = [{"likes": f"t{rng.integers(TOPICS)}", "rich": bool(rng.integers(2))} for _ in range(BATCH)]
    offered = [[items[i] for i in rng.choice(ITEMS, CANDIDATES, replace=False)] for _ in visitors]
    requests = [{"context": visitor, "actions": each} for visitor, each in zip(visitors, offered, strict=True)]
    answer = (await client.post("/predict/batch", json={"model": name, "items": requests})).json()["predictions"]
    shares, feedback = [], []
    for prediction, visitor, each in zip(answer, visitors, offered, strict=True):
        chances = {one["id"]: chance(visitor, one["features"]) for one in each}
        chosen = chances[prediction["label"]]
        shares.append(Share(chosen, max(chances.values()), float(np.mean(list(chances.values())))))
        feedback.append({"prediction_id": prediction["prediction_id"], "correct": bool(rng.random() < chosen)})
    response = await client.post("/feedback/batch", json={"feedback": feedback})
    assert all(result["status"] == "recorded" for result in response.json()["results"]), response.text
    return shares


async def run(client: httpx2.AsyncClient, name: str, rounds: int, **fields: Any) -> list[Share]:
    """Return the shares of a new model, one for each of ten parts of the rounds."""
    rng, shares = np.random.default_rng(7), list[Share]()
    assert (await client.post("/models", json=definition(name, **fields))).status_code == 201
    items, made = [new_item(rng, i) for i in range(ITEMS)], ITEMS
    while len(shares) < rounds:
        if len(shares) % 100 == 0:
            for place in rng.choice(ITEMS, 20, replace=False):
                items[place], made = new_item(rng, made), made + 1
        shares += await visit(client, name, rng, items)
    size = rounds // 10
    return [Share(*np.mean(shares[i : i + size], axis=0).tolist()) for i in range(0, rounds, size)]


async def main(rounds: int) -> None:
    """Print the learning curve."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server:
        async with worker(server.url) as client:
            for share in await run(client, "site", rounds):
                regained = (share.chosen - share.uniform) / (share.best - share.uniform)
                sys.stdout.write(
                    f"{share.chosen:.3f} of {share.best:.3f}, uniform {share.uniform:.3f}: {regained:.0%}\n"
                )


if __name__ == "__main__":
    asyncio.run(main(20_000))
