"""A client that changes a model under faults, and clients that use it: each change is made once, at one place."""

import asyncio
import json
from typing import Any, ClassVar

import httpx2
import numpy as np

from service.store.values import MOST_KEPT
from tests.chaos.changes import confirm
from tests.chaos.clients import Clients, connect, post, state_violations
from tests.chaos.logged import PAGE
from tests.service.sample_models import GAPTRON, LABELS, SIZE

MODEL = "shelf"
ACTIVE = 6
"""Labels that the model has at a time."""

FEWEST = 1
"""Changes, and rounds, that a run must have."""

MOST_COPIES = 5
"""Clones of the model."""


class Alterations(Clients):
    """One client that changes labels and states, and clones the model; others predict and give feedback."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": GAPTRON}
    count = 2

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 2])
        self._labels = list(LABELS)
        self._retired: list[str] = []
        self._changes, self._kept, self._copies = 0, list[str](), list[str]()
        self._answers: dict[str, str] = {}  # the label of each prediction with acknowledged feedback
        self._wrong: list[str] = []

    async def play(self) -> None:
        """Run all clients until `over` is set."""
        await asyncio.gather(self._change(), super().play())

    async def _change(self) -> None:
        async with connect(self._url) as client:
            while not self.over:
                await self._replace(client)
                added, active = f"new-{self._changes}", len(self._labels) - len(self._retired)
                retired = self._labels[len(self._retired)] if active >= ACTIVE else None
                labels = {"add": [added], "retire": [] if retired is None else [retired]}
                await self._make(client, "PATCH", "", {"labels": labels})
                self._labels.append(added)
                self._retired += [] if retired is None else [retired]
                self._changes += 1
                await asyncio.sleep(0.05)

    async def _replace(self, client: httpx2.AsyncClient) -> None:
        """Now and then, keep the state, return to one, reset it, or clone the model."""
        match self._changes % 4:
            case 0 if len(self._kept) < MOST_KEPT:
                own = f"s{len(self._kept)}"
                made = await post(client, f"/models/{MODEL}/snapshots", {"id": own})
                self._kept.append(made.get("id", f"none: {made}"))
            case 1 if len(self._copies) < MOST_COPIES:
                self._copies.append(f"{MODEL}-{len(self._copies)}")
                await post(client, f"/models/{MODEL}/clone", {"name": self._copies[-1]})  # 409 if an answer was lost
            case 2 if self._kept:
                await self._make(client, "POST", "/rollback", {"snapshot": self._kept[self._changes % len(self._kept)]})
                self._changes += 1
            case 3 if self._changes % 8 == 7:
                await self._make(client, "POST", "/reset", {})
                self._changes += 1

    async def _make(self, client: httpx2.AsyncClient, method: str, what: str, body: dict[str, Any]) -> None:
        self._wrong += await confirm(client, MODEL, method, what, body)

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        gone, context = set(self._retired), rng.normal(size=SIZE).tolist()
        answer = await post(client, "/predict", {"model": MODEL, "context": context, "prediction_id": own})
        if answer.get("label") in gone:
            self._wrong.append(f"{own} has the label {answer['label']}, which was retired before the request")
        await post(client, "/feedback", {"prediction_id": f"{MODEL}:{own}", "correct": bool(rng.random() < 0.5)})
        self._answers[own] = answer.get("label", f"none: {answer}")

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the model, its log and its workers, as sentences."""
        wrong, model = list(self._wrong), (await client.get(f"/models/{MODEL}")).json()
        if min(self._changes, len(self._answers)) < FEWEST:
            wrong.append(f"only {self._changes} changes and {len(self._answers)} rounds were confirmed")
        for name, expected in (("labels", self._labels), ("retired_labels", self._retired)):
            if model[name] != expected:
                wrong.append(f"the model has the {name} {model[name]}, but {expected} were confirmed")
        if model["changes"]["count"] != self._changes:
            wrong.append(f"the model has {model['changes']['count']} changes, but {self._changes} were confirmed")
        logged = await _labels_of_rounds(client)
        if logged != sorted(self._answers.items()):
            wrong.append(f"the log has {len(logged)} rounds, not the {len(self._answers)} that were confirmed")
        for each in (MODEL, *self._copies):
            wrong += await state_violations(self._url, {"model": each, "context": [1.0] * SIZE})
        return wrong


async def _labels_of_rounds(client: httpx2.AsyncClient) -> list[tuple[str, str]]:
    """Return the prediction and the label of each round, sorted."""
    found, after = list[tuple[str, str]](), 0
    while True:
        text = (await client.get(f"/models/{MODEL}/rounds", params={"after": after, "limit": PAGE})).text
        lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
        if not lines:
            return sorted(found)
        found += [(line["prediction_id"].removeprefix(f"{MODEL}:"), line["label"]) for line in lines]
        after = lines[-1]["round"]
