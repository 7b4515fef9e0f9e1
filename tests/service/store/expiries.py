"""Models that close expired predictions, for the laws of stores."""

import time

import numpy as np

from service.prediction_id import SINGLE, PredictionId
from service.store.stored_models import ModelKey, StoredPolicies
from service.store.values import Block, FeedbackStatus
from tests.service.store.samples import FORMAT, NOW, WINDOW, sample_made
from tests.service.store.scenario import Scenario

LATE = NOW + WINDOW + 10.0
INCORRECT = f"{WINDOW} on_arrival 0.0"
WAITING = f"{WINDOW} at_window_close drop"


def until(now: float) -> float:
    """Return the offset by which the store's clock shows a moment."""
    return now - time.time()


async def closing(scenario: Scenario, rule: str) -> Scenario:
    """Create a model with a rule for closing predictions, in the place of the scenario's model."""
    await scenario.store.delete_model(scenario.key.name)
    key = ModelKey(scenario.key.name, "closing")
    assert await scenario.store.create_model(key, "{}", NOW, "", StoredPolicies(rule))
    return Scenario(scenario.store, key)


async def close(scenario: Scenario, now: float = LATE, most_blocks: int = 8) -> bool:
    """Close expired predictions; return whether more remain."""
    return (await scenario.store.close_expired(scenario.key, until(now), most_blocks)).more


async def outcomes(scenario: Scenario) -> list[tuple[int, int, float]]:
    """Return number, kind of outcome and reward of each round."""
    entries = (await scenario.store.read_tail(scenario.key, 0, 1000)).entries
    if not entries:
        return []
    table = FORMAT.table([entry.payload for entry in entries])
    return list(zip(table["round"].tolist(), table["kind"].tolist(), table["reward"].tolist(), strict=True))


def inactive(block: str) -> list[Block]:
    """Return a prediction that must be activated."""
    made = sample_made(1)._replace(inactive=np.array([True]))
    return [Block(block, FORMAT.encode_blocks(made, [0, 1], [SINGLE], [bytes(16)])[0])]


async def activate(scenario: Scenario, block: str, now: float = NOW) -> FeedbackStatus:
    """Activate a prediction."""
    name, incarnation = scenario.key
    return await scenario.store.activate(PredictionId(name, block, -1), incarnation, now)
