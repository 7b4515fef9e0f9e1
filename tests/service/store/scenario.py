"""A store with one model, and the steps of its laws."""

from typing import NamedTuple

from service.store.capabilities import Store
from service.store.stored_models import ModelKey
from service.store.values import Block, Feedback, FeedbackRules, FeedbackStatus
from tests.service.store.samples import FORMAT, NOW, STRICT, WINDOW, id_of, sample_predictions


class Scenario(NamedTuple):
    """A store with one new model."""

    store: Store
    key: ModelKey

    async def predict(self, *ids: str, label: int = 2) -> list[bytes | None]:
        """Store predictions of this label without checking the rounds that they have seen."""
        heads = await self.store.add_predictions(self.key, sample_predictions(*ids, label=label), WINDOW, None)
        assert isinstance(heads, list)
        return [head for head in heads if head is None or isinstance(head, bytes)]

    async def judge(self, *feedback: Feedback, now: float = NOW, rules: FeedbackRules = STRICT) -> list[FeedbackStatus]:
        """Give feedback; return its statuses."""
        return [result.status for result in await self.store.add_feedback(self.key, feedback, rules, now)]

    async def play(self, n: int) -> None:
        """Add n rounds to the log."""
        ids = [f"p{number}" for number in range(n)]
        await self.predict(*ids)
        await self.judge(*(Feedback(id_of(own), True, None) for own in ids))

    async def blocks(self) -> list[Block]:
        """Return all blocks of predictions."""
        page = await self.store.scan_blocks(self.key, "")
        found = page.blocks
        while page.next_cursor is not None:
            page = await self.store.scan_blocks(self.key, page.next_cursor)
            found += page.blocks
        return found

    async def counters(self) -> tuple[int, int, int]:
        """Return the numbers of rounds, predictions and correct rounds."""
        model = await self.store.get_model(self.key.name)
        assert model is not None
        return model.round_count, model.predictions, model.correct

    async def numbers(self, after: int = 0, limit: int = 1000) -> list[int]:
        """Return the numbers of the rounds in the log."""
        entries = (await self.store.read_tail(self.key, after, limit)).entries
        numbers: list[int] = FORMAT.table([entry.payload for entry in entries])["round"].tolist()
        return numbers
