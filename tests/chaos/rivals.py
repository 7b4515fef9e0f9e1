"""Clients of a model with shadows: one shadow stays, others are promoted. What the shadow knows is known exactly."""

import asyncio
import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import httpx2
import numpy as np

from service.store.values import MOST_KEPT
from tests.chaos.changes import confirm
from tests.chaos.clients import connect, distribution, post, state_violations
from tests.chaos.logged import Line, read, read_log, record_violations
from tests.chaos.recorder import Recorder, sending
from tests.chaos.shadowing import Shadowing
from tests.service.sample_models import GAPTRON, SIZE, SOBA_DIAGONAL

MODEL = "watched"
STEADY, RIVAL = "steady", "rival"
LEARNERS: list[dict[str, Any]] = [SOBA_DIAGONAL, {"algorithm": "squarecb"}, GAPTRON]
"""The learners that are promoted in turn."""

PAUSE = 1.0
"""Seconds between promotions."""

PATIENCE = 60.0
"""Seconds after which a shadow must have all rounds, although workers may still restart."""


class Rivals(Recorder):
    """One client that makes shadows and promotes them; others predict and give feedback."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": SOBA_DIAGONAL}
    count = 2

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 7])
        self._promoted: list[str] = []
        self._wrong: list[str] = []

    async def create_model(self) -> None:
        """Create the model, and the shadow that stays."""
        await super().create_model()
        async with connect(self._url, timeout=10.0) as client:
            await _put(client, STEADY, GAPTRON)

    async def play(self) -> None:
        """Run all clients until `over` is set."""
        await asyncio.gather(self._change(), super().play())

    async def _change(self) -> None:
        async with connect(self._url) as client:
            for number in itertools.count():
                if self.over:
                    return
                learner = LEARNERS[number % len(LEARNERS)]
                await _put(client, RIVAL, learner)
                await asyncio.sleep(PAUSE)
                if len(self._promoted) < MOST_KEPT // 2:  # each keeps a snapshot; one that is cut short may, too
                    self._wrong += await confirm(client, MODEL, "POST", "/promote", {"shadow": RIVAL})
                    self._promoted.append(learner["algorithm"])

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        context, bit = rng.normal(size=SIZE).tolist(), bool(rng.random() < 0.6)
        body = {"model": MODEL, "context": context, "prediction_id": own}
        await self._send_until_answered(client, sending("/predict", body, [(own, None)]))
        feedback = {"prediction_id": f"{MODEL}:{own}"}
        both = [sending("/feedback", feedback | {"correct": each}, [(own, each)]) for each in (bit, bit, not bit)]
        await self._together(client, rng, both)

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the model, its log, its shadow and its workers, as sentences."""
        wrong = [*self._wrong, *await record_violations(self, client)]
        lines, model = await read_log(client, MODEL), (await read(client, f"/models/{MODEL}")).json()
        wrong += self.change_violations(model)
        shadow = await _caught_up(client)
        truth = Shadowing(model | {"learner": shadow["learner"]}, lines)
        wrong += shadow_violations(shadow, truth, lines)
        wrong += await confirm(client, MODEL, "POST", "/promote", {"shadow": STEADY})
        body = {"model": MODEL, "context": [1.0] * SIZE}
        if list((await distribution(self._url, body)).values()) != truth.distribution([1.0] * SIZE):
            wrong.append("the state of the promoted shadow is not the fold of the log")
        return wrong + await state_violations(self._url, body)

    def change_violations(self, model: dict[str, Any]) -> list[str]:
        """Return a sentence for each difference between a model and the promotions that were confirmed."""
        wrong, found = list[str](), model["learner"]["algorithm"]
        if not self._promoted or model["changes"]["count"] != len(self._promoted):
            wrong.append(f"{model['changes']['count']} changes, but {len(self._promoted)} promotions were confirmed")
        if self._promoted[-1:] != [found]:
            wrong.append(f"the model continues with {found}, but these were promoted: {self._promoted[-3:]}")
        return wrong


def shadow_violations(shadow: dict[str, Any], truth: Shadowing, lines: Sequence[Line]) -> list[str]:
    """Return a sentence for each number of a shadow that the log does not give."""
    n, compared = len(lines), shadow["comparison"] or {"served": None, "ips": None}
    expected = {"rounds_seen": n, "compared_rounds": n, "skipped_rounds": 0, "restarts": 0, "since_round": 1, "lag": 0}
    wrong = [
        f"the shadow has the {name} {shadow[name]}, not {it}" for name, it in expected.items() if shadow[name] != it
    ]
    served = sum(line.reward for line in lines) / n
    for name, mean in (("served", served), ("ips", truth.ips)):
        if compared[name] is None or not math.isclose(compared[name], mean, rel_tol=1e-6):
            wrong.append(f"the shadow has the {name} {compared[name]}, not {mean}")
    return wrong


async def _put(client: httpx2.AsyncClient, shadow: str, learner: dict[str, Any]) -> None:
    await post(client, f"/models/{MODEL}/shadows/{shadow}", {"learner": learner}, method="PUT")


async def _caught_up(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Return the shadow that stays once it has all rounds, or as it is at the end of our patience."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while True:
        shadow: dict[str, Any] = (await read(client, f"/models/{MODEL}/shadows/{STEADY}")).json()
        if shadow["lag"] == 0 or asyncio.get_running_loop().time() > end:
            return shadow
        await asyncio.sleep(0.5)
