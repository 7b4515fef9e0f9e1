"""Clients of a model that spends a budget, within rules, with a holdout, and forgets: every λ is known exactly."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import httpx2
import numpy as np

from tests.chaos.changes import confirm
from tests.chaos.clients import connect, state_violations
from tests.chaos.logged import lines_of, record_violations
from tests.chaos.recorder import Recorder, sending
from tests.chaos.replayed import propensity_violations
from tests.service.sample_models import LABELS, SIZE
from tests.simulation.pace import Pace

MODEL = "spender"
COSTS = {"red": 1.0, "green": 0.3}
BUDGETS: Sequence[dict[str, float]] = ({"cost": 0.2}, {"cost": 0.35})
"""The budgets that the changes of the model set in turn."""

RULES = {"groups": {"warm": ["red", "none"]}, "floor": {"warm": 0.1}, "cap": {"blue": 0.6}, "floor_each": 0.02}
PAUSE = 2.0
"""Seconds between two changes."""

TOLERANCE = 1e-6
"""Relative tolerance of λ."""


class Spenders(Recorder):
    """One client that changes the budget; others ask for one, several or ordered labels, some with other costs."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {
        "learner": {"algorithm": "fastcb", "half_life_rounds": 300.0},
        "costs": COSTS,
        "budget": BUDGETS[0],
        "rules": RULES,
        "holdout": {"fraction": 0.2, "policy": "uniform"},
        "on_expiry": "incorrect",  # a budget needs it; the window is longer than a run
        "learn": "on_arrival",
        "window_seconds": 86_400.0,
    }
    count = 2

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 8])
        self._wrong: list[str] = []

    async def play(self) -> None:
        """Run all clients until `over` is set."""
        await asyncio.gather(self._change(), super().play())

    async def _change(self) -> None:
        changes = 0
        async with connect(self._url) as client:
            while not self.over:
                await asyncio.sleep(PAUSE)
                changes += 1
                body = {"budget": BUDGETS[changes % len(BUDGETS)]}
                self._wrong += await confirm(client, MODEL, "PATCH", "", body)

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        kind = rng.random()
        owns = await (self._ask_slots if kind < 0.2 else self._ask_batch if kind < 0.4 else self._ask_one)(
            client, own, rng
        )
        judged = [(each, bool(rng.random() < 0.4)) for each in owns if rng.random() < 0.9]
        await self._together(client, rng, [_feedback(*each) for each in judged for _ in range(2)])

    async def _ask_one(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> list[str]:
        body = {"model": MODEL, "prediction_id": own} | _item(rng)
        await self._send_until_answered(client, sending("/predict", body, [(own, None)]))
        return [own]

    async def _ask_batch(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> list[str]:
        owns = [f"{own}-{i}" for i in range(int(rng.integers(2, 6)))]
        body = {"model": MODEL, "items": [_item(rng) | {"prediction_id": each} for each in owns]}
        await self._send_until_answered(client, sending("/predict/batch", body, [(each, None) for each in owns]))
        return owns

    async def _ask_slots(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> list[str]:
        owns = [f"{own}:{slot}" for slot in range(2)]
        body = {"model": MODEL, "prediction_id": own, "top": len(owns)} | _item(rng)
        await self._send_until_answered(client, sending("/predict", body, [(each, None) for each in owns]))
        return owns

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the model, its log, λ and its workers, as sentences."""
        wrong, lines = (
            [*self._wrong, *await record_violations(self, client)],
            [each async for each in lines_of(client, MODEL)],
        )
        wrong += weight_violations(lines) + await propensity_violations(client, MODEL, lines)
        return wrong + await state_violations(self._url, {"model": MODEL, "context": [1.0] * SIZE})


def weight_violations(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each round of a log whose λ is not that of the rounds and changes that its decision saw."""
    paces, wrong = [Pace()], list[str]()
    for line in lines:
        seen, given = line["rounds_seen"], line["cost_weight"]
        expected = None if line["holdout"] else paces[seen].weight(_budget(line["changes_seen"]))
        if given is None or expected is None:
            wrong += [] if given is expected else [f"round {line['round']} has the λ {given}, not {expected}"]
            paces.append(paces[-1])
            continue
        if not math.isclose(given, expected, rel_tol=TOLERANCE, abs_tol=1e-12):
            wrong.append(f"round {line['round']} has the λ {given}, not {expected}")
        lag = max(0.0, line["round"] - 1.0 - seen)
        paces.append(paces[-1].after(_budget(line["changes"]), line["cost"], given, lag))
    return wrong


def _budget(changes: int) -> dict[str, float]:
    """Return the budget after a number of changes."""
    return BUDGETS[changes % len(BUDGETS)]


def _item(rng: np.random.Generator) -> dict[str, Any]:
    """Return a context, now and then with other costs or with few eligible labels."""
    own: dict[str, Any] = {"context": rng.normal(size=SIZE).tolist()}
    own |= {"costs": {"none": float(rng.random())}} if rng.random() < 0.2 else {}
    return own | ({"eligible": LABELS[1:]} if rng.random() < 0.2 else {})


def _feedback(own: str, correct: bool) -> Any:
    return sending("/feedback", {"prediction_id": f"{MODEL}:{own}", "correct": correct}, [(own, correct)])
