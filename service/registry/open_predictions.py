"""Lists the predictions of a model that have no round yet."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from service import costs
from service.compute import Compute
from service.errors import StoreError
from service.models.model import Model
from service.prediction_id import PredictionId
from service.registry.round_log import moment
from service.schemas.rounds import PredictionLine
from service.store.base import Block, BlockPage, Store
from service.store.records.layout import HOLDOUT, INACTIVE, OPEN, PENDING
from service.store.records.records import Waiting

_MOST_SCANS = 20
"""Scans of the store per page, so that a page takes little time in a store with few predictions of the model."""


_STATUS: dict[int, Literal["open", "waiting", "inactive"]] = {OPEN: "open", PENDING: "waiting", INACTIVE: "inactive"}


class PredictionPage(NamedTuple):
    """Some predictions, in no particular order, and the cursor of the next page; None on the last page."""

    lines: list[PredictionLine]
    next_cursor: str | None


class OpenPredictions:
    """Reads the predictions of one model."""

    def __init__(self, model: Model, store: Store, compute: Compute) -> None:
        self._model = model
        self._store = store
        self._compute = compute

    async def page(self, cursor: str, limit: int, now: float) -> PredictionPage:
        """Return about `limit` predictions; fewer on the last page, or if the scan takes long.

        Expired predictions are left out, and unreadable ones, which `wager repair` lists, and those that have seen
        changes which the store has lost.
        """
        lines, following = list[PredictionLine](), BlockPage([], cursor)
        for _ in range(_MOST_SCANS):
            following = await self._store.scan_blocks(self._model.key, following.next_cursor or "")
            cost = sum(len(block.record) for block in following.blocks) * costs.PRINTED_BYTE
            lines += await self._compute.run_in_thread_if_costly(
                cost, self._model.name, self._lines, following.blocks, now
            )
            if following.next_cursor is None or len(lines) >= limit:
                break
        return PredictionPage(lines, following.next_cursor)

    def _lines(self, blocks: list[Block], now: float) -> list[PredictionLine]:
        return [line for block in blocks for line in self._of_block(block, now)]

    def _of_block(self, block: Block, now: float) -> Iterator[PredictionLine]:
        try:
            waiting = self._model.choice.records.waiting(block.record)
        except StoreError:
            return
        if waiting is not None and self._model.has_seen(*waiting.history) and self._is_open(waiting, now):
            yield from self._of_rows(block.id, waiting)

    def _is_open(self, waiting: Waiting, now: float) -> bool:
        return now <= waiting.expires_at or self._model.definition.late_feedback == "accept"

    def _of_rows(self, block: str, waiting: Waiting) -> Iterator[PredictionLine]:
        model = self._model
        for i, line in enumerate(waiting.rows.table):
            logged = model.choice.logged(waiting.rows, i)
            yield PredictionLine(
                prediction_id=str(PredictionId(model.name, block, int(line["token"]))),
                status=_STATUS[waiting.kinds[i]],
                label=logged.answer.label,
                labels=logged.answer.labels,
                propensity=float(line["propensity"]),
                holdout=bool(line["flags"] & HOLDOUT),
                context=logged.context,
                rounds_seen=int(line["rounds_seen"]),
                predicted_at=moment(line["predicted_at"]),
                expires_at=moment(waiting.expires_at),
            )
