"""The audit: checks that the logs contain each acknowledged round once, with its outcome, and nothing else."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from service.json_values import JsonObject
from toolkit.load.client import OK, Client, LoadError
from toolkit.load.ledger import PREDICTED, Ledger, Stage

_PAGE = 1000
_SENT = (Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED, Stage.FEEDBACK_REFUSED)  # the stages after feedback was sent


@dataclass
class Audit:
    """Counts of rounds, over all models."""

    predictions_answered: int = 0
    predictions_refused: int = 0
    feedbacks_acknowledged: int = 0
    feedbacks_refused: int = 0
    rounds_in_the_logs: int = 0
    lost: int = 0
    """Rounds with acknowledged feedback that no log contains."""
    repeated: int = 0
    """Extra copies of rounds in the logs."""
    altered: int = 0
    """Rounds in a log whose outcome differs from the feedback."""
    unasked: int = 0
    """Rounds in a log for which no feedback was sent."""
    predictions_lost: int = 0
    """The excess of answered predictions over those that the models count."""
    unknown: int = 0
    """Rounds whose last request has no response, so that it may or may not have had an effect."""

    @property
    def wrong(self) -> int:
        """The number of rounds and predictions that contradict the service's promises."""
        return self.lost + self.repeated + self.altered + self.unasked + self.predictions_lost

    def to_json(self) -> dict[str, int]:
        """Return all counts."""
        return asdict(self)


async def audit(client: Client, models: Sequence[str], ledgers: Sequence[Ledger], read: Callable[[int], None]) -> Audit:
    """Compare the logs of all models with the ledgers; call `read` with the number of lines of each page."""
    found, stored = Audit(), 0
    copies = [np.zeros(len(ledger.stages), dtype=np.int64) for ledger in ledgers]
    for model in models:
        stored += json.loads(await _get(client, f"/models/{model}"))["predictions"]
        async for lines in _pages(client, model):
            for line in lines:
                _count(found, ledgers, copies, model, line)
            read(len(lines))
    for ledger, times in zip(ledgers, copies, strict=True):
        found.predictions_answered += ledger.count(*PREDICTED)
        found.predictions_refused += ledger.count(Stage.PREDICTION_REFUSED)
        found.feedbacks_acknowledged += ledger.count(Stage.ACKNOWLEDGED)
        found.feedbacks_refused += ledger.count(Stage.FEEDBACK_REFUSED)
        found.unknown += ledger.count(Stage.ASKED, Stage.FEEDBACK_SENT)
        found.lost += int((ledger.at(Stage.ACKNOWLEDGED) & (times == 0)).sum())
        found.repeated += int(np.maximum(times - 1, 0).sum())
    found.predictions_lost = max(0, found.predictions_answered - stored)
    return found


async def _pages(client: Client, model: str) -> AsyncIterator[list[JsonObject]]:
    after = 0
    while body := await _get(client, f"/models/{model}/rounds?after={after}&limit={_PAGE}"):
        lines = [json.loads(line) for line in body.splitlines()]
        yield lines
        last = int(lines[-1]["round"])
        if last <= after:
            raise LoadError(f"the log of {model} does not end: round {last} came after round {after}")
        after = last


async def _get(client: Client, path: str) -> bytes:
    answer = await client.call("GET", path)
    if answer.status != OK:
        raise LoadError(f"{path} cannot be read: {answer}")
    return answer.body


def _count(found: Audit, ledgers: Sequence[Ledger], copies: Sequence[np.ndarray], model: str, line: JsonObject) -> None:
    """Count one line of a log, and the copies of its round."""
    found.rounds_in_the_logs += 1
    try:
        process, number = map(int, str(line["prediction_id"]).removeprefix(f"{model}:").split("."))
        stage, correct = ledgers[process].stages[number], bool(ledgers[process].correct[number])
    except (ValueError, LookupError):
        found.unasked += 1
        return
    copies[process][number] += 1
    found.unasked += stage not in _SENT
    found.altered += stage in _SENT and line["correct"] is not correct
