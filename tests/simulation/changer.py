"""A client that changes models: labels, rules, prices, states and shadows; one model comes and goes."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from service.schemas.lifecycle import SnapshotRequest
from service.schemas.models import LearnerChoice, ModelDefinition, ModelPatch
from tests.service.sample_models import GAPTRON, LABELS, definition
from tests.simulation.clients import Crowd
from tests.simulation.models import CHANGED, FLAG, GUEST, MODELS, SQUARECB
from tests.simulation.post import heard_by_nobody
from tests.simulation.workers import SimulatedWorker

_PAUSE = 0.04  # mean seconds between two changes
_ANY = ("*",)
_SHADOWS = ("left", "right")
_LEARNERS: tuple[Mapping[str, Any], ...] = (
    GAPTRON,
    {"algorithm": "banditron"},
    {**SQUARECB, "gap_scale": 3.0},
    {**SQUARECB, "learning_rate": 0.5},
    {"algorithm": "epsilon-greedy-ridge"},
)
"""Learners of shadows. Those of models with such small states are simulated quickly. Some weigh no costs: they are
promoted while the model has none."""


class Changer:
    """Changes the model `CHANGED` and the labels of `FLAG`, and creates and deletes `GUEST`.

    Args:
        crowd: asks workers.
        seed: of its random numbers.
    """

    def __init__(self, crowd: Crowd, seed: int) -> None:
        self._crowd = crowd
        self._random = random.Random(f"changes {seed}")
        self._number = 0
        self._kept: list[str] = []

    async def play(self) -> None:
        """Make changes until it is over. Their answers may be lost, and some are refused."""
        while not self._crowd.is_over:
            await asyncio.sleep(self._random.expovariate(1 / _PAUSE))
            self._number += 1
            changes = [
                self._change_labels,
                self._change_flag,
                self._change_rules,
                self._change_both,
                self._change_prices,
                self._change_prices,
                self._keep,
                self._replace,
                self._delete,
                self._shadow,
                self._promote,
            ]
            change = self._random.choice(changes)
            await self._crowd.ask(change(), heard_by_nobody)
            if change == self._delete:
                await self._crowd.ask(self._create(), heard_by_nobody)

    def _change_labels(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        labels, _ = self._new_labels()
        return self._patch(labels=labels)

    def _change_flag(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        labels, _ = self._new_labels(FLAG)
        return self._patch(FLAG, labels=labels)

    def _change_rules(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        return self._patch(rules=self._rules(self._labels()))

    def _change_both(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        labels, then = self._new_labels()
        return self._patch(labels=labels, rules=self._rules(then))

    def _change_prices(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        costs = {label: self._random.uniform(0.0, 1.0) for label in self._labels()[1:]}
        budget = {"cost": self._random.uniform(0.1, 0.6)}
        changes: list[dict[str, Any]] = [
            {"costs": costs},
            {"costs": costs, "budget": budget, "cost_weight": 0.0},
            {"budget": budget, "cost_weight": 0.0},
            {"budget": budget, "cost_weight": 0.0, "rules": None},
            {"budget": None, "cost_weight": self._random.uniform(0.0, 1.0)},
            {"costs": None, "budget": None, "cost_weight": 0.0},
        ]
        return self._patch(**self._random.choice(changes))

    def _patch(self, model: str = CHANGED, **fields: Any) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        patch = ModelPatch.model_validate(fields)
        return lambda worker: worker.registry.change(model, patch, _ANY, None)

    def _labels(self, model: str = CHANGED) -> list[str]:
        return next(known.truth.labels for known in self._crowd.known if known.name == model)

    def _new_labels(self, model: str = CHANGED) -> tuple[dict[str, list[str]], list[str]]:
        """Return a change that adds a label and retires the oldest one of many, and the labels after it."""
        labels, added = self._labels(model), f"new-{self._number}"
        kept = labels[len(labels) > len(LABELS) + 1 :]
        return {"add": [added], "retire": labels[: -len(kept)]}, [*kept, added]

    def _rules(self, labels: list[str]) -> dict[str, Any] | None:
        """Return some rules, most of them for the newest labels: those that they name cannot be retired."""
        newest, groups = labels[-1], {"some": labels[-3:-1]}
        return self._random.choice(
            [
                {"floor": {newest: 0.3}, "floor_each": 0.01},
                {"floor_each": 0.1},
                {"cap": {newest: 0.1, "some": 0.3}, "groups": groups},
                {"floor": {"some": 0.6}, "cap": {labels[0]: 0.05}, "groups": groups},
                None,
            ]
        )

    def _keep(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        self._kept = [*self._kept[-3:], f"s{self._number}"]
        request = SnapshotRequest(id=self._kept[-1])
        return lambda worker: worker.lifecycle.snapshots.take(CHANGED, request, None)

    def _replace(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        if self._kept and self._random.random() < 0.7:
            snapshot = self._random.choice(self._kept)
            return lambda worker: worker.lifecycle.replacing.roll_back(CHANGED, snapshot, _ANY, None)
        return lambda worker: worker.lifecycle.replacing.reset(CHANGED, _ANY, None)

    def _shadow(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        """Add a shadow, or replace or remove one."""
        name = self._random.choice(_SHADOWS)
        if self._random.random() < 0.2:
            return lambda worker: worker.shadows.drop(CHANGED, name)
        learner = LearnerChoice(**self._random.choice(_LEARNERS))
        return lambda worker: worker.shadows.put(CHANGED, name, learner, None)

    def _promote(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        name = self._random.choice(_SHADOWS)
        return lambda worker: worker.lifecycle.promoting.promote(CHANGED, name, _ANY, None)

    def _delete(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        return lambda worker: worker.registry.delete(GUEST)

    def _create(self) -> Callable[[SimulatedWorker], Awaitable[Any]]:
        made = ModelDefinition.model_validate(definition(GUEST, **MODELS[GUEST]))
        return lambda worker: worker.registry.create(made)
