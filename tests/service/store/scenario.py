"""A store with one model, and the steps of its laws."""

import time
from typing import NamedTuple

import numpy as np

from service.prediction_id import SINGLE, PredictionId
from service.store.capabilities import Store
from service.store.stored_models import ModelKey, StoredModel, StoredPolicies
from service.store.values import Block, Feedback, FeedbackRules, FeedbackStatus, LogEntry, ModelStats
from tests.service.store.samples import FORMAT, NOW, STRICT, WINDOW, id_of, sample_made, sample_predictions

RECORDED, DUPLICATE, CONFLICT = FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE, FeedbackStatus.CONFLICT
NONE = StoredPolicies()
LATE = NOW + WINDOW + 10.0
INCORRECT = StoredPolicies(f"{WINDOW} on_arrival 0.0")
WAITING = StoredPolicies(f"{WINDOW} at_window_close drop")


def until(now: float) -> float:
    """Return the offset by which the store's clock shows a moment."""
    return now - time.time()


def right(own: str) -> Feedback:
    """Return the feedback that a prediction was right."""
    return Feedback(id_of(own), True, None)


class Scenario(NamedTuple):
    """A store with one new model."""

    store: Store
    key: ModelKey

    async def replaced(self, policies: StoredPolicies = NONE, incarnation: str = "second") -> "Scenario":
        """Create a model with these policies in the place of this one."""
        await self.store.delete_model(self.key.name)
        key = ModelKey(self.key.name, incarnation)
        assert await self.store.create_model(key, "{}", NOW, "", policies)
        return Scenario(self.store, key)

    async def predict(self, *ids: str, label: int = 2) -> list[bytes | None]:
        """Store predictions of this label without checking the rounds that they have seen."""
        heads = await self.store.add_predictions(self.key, sample_predictions(*ids, label=label), WINDOW, None)
        assert isinstance(heads, list)
        return [head for head in heads if head is None or isinstance(head, bytes)]

    async def predict_inactive(self, *ids: str) -> None:
        """Store predictions that must be activated."""
        made = sample_made(1)._replace(inactive=np.array([True]))
        blocks = [Block(own, FORMAT.encode_blocks(made, [0, 1], [SINGLE], [bytes(16)])[0]) for own in ids]
        await self.store.add_predictions(self.key, blocks, WINDOW, None)

    async def activate(self, own: str, now: float = NOW) -> FeedbackStatus:
        """Activate a prediction."""
        return await self.store.activate(PredictionId(self.key.name, own, -1), self.key.incarnation, now)

    async def judge(self, *feedback: Feedback, now: float = NOW, rules: FeedbackRules = STRICT) -> list[FeedbackStatus]:
        """Give feedback; return its statuses."""
        return [result.status for result in await self.store.add_feedback(self.key, feedback, rules, now)]

    async def confirm(self, *ids: str, now: float = NOW, rules: FeedbackRules = STRICT) -> list[FeedbackStatus]:
        """Report that predictions were right; return the statuses."""
        return await self.judge(*map(right, ids), now=now, rules=rules)

    async def play(self, n: int) -> None:
        """Add n rounds to the log."""
        ids = [f"p{number}" for number in range(n)]
        await self.predict(*ids)
        await self.confirm(*ids)

    async def close(self, now: float = LATE, most_blocks: int = 8) -> bool:
        """Close expired predictions; return whether more remain."""
        return (await self.store.close_expired(self.key, until(now), most_blocks)).more

    async def blocks(self) -> list[Block]:
        """Return all blocks of predictions."""
        page = await self.store.scan_blocks(self.key, "")
        found = page.blocks
        while page.next_cursor is not None:
            page = await self.store.scan_blocks(self.key, page.next_cursor)
            found += page.blocks
        return found

    async def model(self) -> StoredModel:
        """Return the stored model."""
        model = await self.store.get_model(self.key.name)
        assert model is not None
        return model

    async def figures(self) -> ModelStats:
        """Return the figures of the model."""
        figures = await self.store.read_model_stats(self.key.name)
        assert figures is not None
        return figures

    async def counters(self) -> tuple[int, int, int]:
        """Return the numbers of rounds, predictions and correct rounds."""
        model = await self.model()
        return model.round_count, model.predictions, model.correct

    async def entries(self) -> list[LogEntry]:
        """Return the entries of the log."""
        return (await self.store.read_tail(self.key, 0, 10_000)).entries

    async def numbers(self, after: int = 0, limit: int = 1000) -> list[int]:
        """Return the numbers of the rounds in the log."""
        entries = (await self.store.read_tail(self.key, after, limit)).entries
        numbers: list[int] = FORMAT.table([entry.payload for entry in entries])["round"].tolist()
        return numbers

    async def outcomes(self) -> list[tuple[int, int, float]]:
        """Return number, kind of outcome and reward of each round."""
        entries = await self.entries()
        if not entries:
            return []
        table = FORMAT.table([entry.payload for entry in entries])
        return list(zip(table["round"].tolist(), table["kind"].tolist(), table["reward"].tolist(), strict=True))
