"""Lists the predictions of a model that have no round yet."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from service import costs
from service.environment import Environment
from service.errors import StoreError
from service.models.model import Model
from service.prediction_id import PredictionId
from service.registry.round_log import moment
from service.schemas.rounds import PredictionLine
from service.store.records.layout import HOLDOUT, INACTIVE, OPEN, PENDING
from service.store.values import Block, BlockPage

_MOST_SCANS = 20  # maximum per page, to limit its time if few of the store's keys are predictions of the model


_STATUS: dict[int, Literal["open", "waiting", "inactive"]] = {OPEN: "open", PENDING: "waiting", INACTIVE: "inactive"}


class PredictionPage(NamedTuple):
    """Some predictions, in no particular order, and the cursor of the next page, which is None on the last page."""

    lines: list[PredictionLine]
    next_cursor: str | None


async def page_of(environment: Environment, model: Model, cursor: str, limit: int) -> PredictionPage:
    """Return about `limit` predictions; fewer on the last page, or if the scan takes long.

    Omits unreadable predictions (`wager repair` lists them) and predictions that have seen changes which the store has
    lost. Omits expired predictions, too, unless the model accepts late feedback.
    """
    lines, blocks, now = list[PredictionLine](), BlockPage([], cursor), environment.now()
    run = environment.compute.run_in_thread_if_costly
    for _ in range(_MOST_SCANS):
        blocks = await environment.store.scan_blocks(model.key, blocks.next_cursor or "")
        cost = sum(len(block.record) for block in blocks.blocks) * costs.PRINTED_BYTE
        lines += await run(cost, model.name, _lines, model, blocks.blocks, now)
        if blocks.next_cursor is None or len(lines) >= limit:
            break
    return PredictionPage(lines, blocks.next_cursor)


def _lines(model: Model, blocks: Sequence[Block], now: float) -> list[PredictionLine]:
    return [line for block in blocks for line in _lines_of(model, block, now)]


def _lines_of(model: Model, block: Block, now: float) -> Iterator[PredictionLine]:
    try:
        waiting = model.choice.records.waiting(block.record)
    except StoreError:
        return
    if waiting is None or not model.has_seen(*waiting.history):
        return
    if now > waiting.expires_at and model.definition.late_feedback != "accept":
        return
    for i, line in enumerate(waiting.rows.table):
        logged = model.choice.logged(waiting.rows, i)
        yield PredictionLine(
            prediction_id=str(PredictionId(model.name, block.id, int(line["token"]))),
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
