"""Clients of a model with actions: each request brings its own, and feedback is a reward or a bit."""

from typing import Any, ClassVar

import httpx2
import numpy as np

from tests.chaos.clients import ALL_ROUNDS, state_violations
from tests.chaos.logged import lines_of, record_violations
from tests.chaos.recorder import Recorder, Sending, sending
from tests.service.actions.catalogue import NAMED, definition, item

MODEL = "offers"
COLOURS = ("red", "blue", "green", "none")
REWARDS = (0.0, 0.25, 0.5, 1.0)


class Offers(Recorder):
    """Clients that predict among changing actions, and give duplicated and contradictory rewards."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"actions": {"features": NAMED, "log_actions": "all"}}
    count = 2

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 3])
        self._offered: dict[str, list[str]] = {}  # the candidates of each prediction

    def definition(self) -> dict[str, Any]:
        """Return the definition of the model."""
        return definition(self.model, retain_rounds=ALL_ROUNDS, **self.policies)

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        owns = [f"{own}-{i}" for i in range(1 if rng.random() < 0.7 else int(rng.integers(2, 10)))]
        items = [self._item(each, rng) for each in owns]
        about = [(each, None) for each in owns]
        if len(owns) == 1:
            predictions = [sending("/predict", items[0] | {"model": MODEL}, about)] * int(rng.integers(1, 3))
        else:
            predictions = [sending("/predict/batch", {"model": MODEL, "items": items}, about)]
        await self._together(client, rng, predictions)
        chosen = [owns[i] for i in rng.integers(len(owns), size=len(owns) + 2)]
        await self._together(client, rng, [_feedback(each, rng) for each in chosen])

    def _item(self, own: str, rng: np.random.Generator) -> dict[str, Any]:
        """Return a request with one to six actions, some of which may not be eligible."""
        ids = [f"{COLOURS[int(rng.integers(len(COLOURS)))]}-{own}-{i}" for i in range(int(rng.integers(1, 7)))]
        actions = [item(each, colour=each.split("-")[0], price=float(rng.random())) for each in ids]
        made = {"context": {"likes": COLOURS[int(rng.integers(3))]}, "actions": actions, "prediction_id": own}
        eligible = {"eligible": ids[: (len(ids) + 1) // 2]} if rng.random() < 0.3 else {}
        self._offered[own] = eligible.get("eligible", ids)
        return made | eligible

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the model, its log and its workers, as sentences."""
        wrong = await record_violations(self, client)
        async for line in lines_of(client, MODEL):
            wrong += self.line_violations(line)
        body = {"model": MODEL, "context": {"likes": "red"}, "actions": [item(each, colour=each) for each in COLOURS]}
        return wrong + await state_violations(self._url, body)

    def line_violations(self, line: dict[str, Any]) -> list[str]:
        """Return a sentence if a round in the log does not have the actions of its request, with their chances."""
        own, chances = (
            line["prediction_id"].removeprefix(f"{MODEL}:"),
            {each["id"]: each["probability"] for each in line["actions"]},
        )
        if list(chances) != self._offered[own] or line["action_count"] != len(chances):
            return [f"{own} has the actions {list(chances)} in the log, but {self._offered[own]} were offered"]
        if chances[line["label"]] != line["propensity"] or abs(sum(chances.values()) - 1.0) > 1e-9:
            return [f"{own} has the chances {chances} in the log, but the propensity {line['propensity']}"]
        return []


def _feedback(own: str, rng: np.random.Generator) -> Sending:
    """Return a reward, or for 0 and 1 often a bit."""
    reward = REWARDS[int(rng.integers(len(REWARDS)))]
    as_bit = reward in {0.0, 1.0} and rng.random() < 0.5
    value: dict[str, Any] = {"correct": reward == 1.0} if as_bit else {"reward": reward}
    return sending("/feedback", {"prediction_id": f"{MODEL}:{own}"} | value, [(own, reward)])
