"""The audit: whether the logs hold each acknowledged round once, with its outcome, and nothing else."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from toolkit.load.client import Client, LoadError
from toolkit.load.ledger import Ledger, Stage
from toolkit.load.models import explained
from toolkit.load.requests import OK

_PAGE = 1000
_KNOWN = (Stage.ANSWERED, Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED, Stage.FEEDBACK_REFUSED)
_SENT = (Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED, Stage.FEEDBACK_REFUSED)
_SILENT = (Stage.ASKED, Stage.FEEDBACK_SENT)


@dataclass
class Audit:
    """Counts of rounds, over all models."""

    predictions_answered: int = 0
    predictions_refused: int = 0
    feedbacks_acknowledged: int = 0
    feedbacks_refused: int = 0
    rounds_in_the_logs: int = 0
    lost: int = 0
    """Acknowledged rounds that are in no log."""
    repeated: int = 0
    """Extra copies of rounds in the logs."""
    altered: int = 0
    """Rounds in a log with another outcome than the feedback's."""
    unasked: int = 0
    """Rounds in a log for which no feedback was sent."""
    predictions_lost: int = 0
    """Predictions with a response that the models' counts lack."""
    unknown: int = 0
    """Rounds without a response, which may or may not be recorded."""

    @property
    def wrong(self) -> int:
        """The number of rounds that contradict the service's promises."""
        return self.lost + self.repeated + self.altered + self.unasked + self.predictions_lost

    def to_json(self) -> dict[str, int]:
        """Return all counts."""
        return asdict(self)


async def audit(client: Client, models: Sequence[str], ledgers: Sequence[Ledger], read: Callable[[int], None]) -> Audit:
    """Read the logs of all models and compare them with the ledgers.

    Args:
        client: a client of the service.
        models: the names of the models.
        ledgers: the ledger of each process.
        read: receives the number of rounds of each page, once it has been read.

    Raises:
        LoadError: if a log cannot be read.
    """
    found = _Found(ledgers)
    stored = 0
    for model in models:
        stored += int((await _get(client, f"/models/{model}"))["predictions"])
        await _read_log(client, model, found, read)
    return found.compare(stored)


async def _read_log(client: Client, model: str, found: "_Found", read: Callable[[int], None]) -> None:
    after = 0
    while lines := await _page(client, model, after):
        for line in lines:
            found.add(model, line)
        read(len(lines))
        if int(lines[-1]["round"]) <= after:
            raise LoadError(f"the log of {model} does not end: round {lines[-1]['round']} came after round {after}")
        after = int(lines[-1]["round"])


async def _page(client: Client, model: str, after: int) -> list[dict[str, Any]]:
    answer = await client.call("GET", f"/models/{model}/rounds?after={after}&limit={_PAGE}")
    if answer.status != OK:
        raise LoadError(f"the log of {model} cannot be read: {explained(answer)}")
    return [json.loads(line) for line in answer.body.splitlines()]


async def _get(client: Client, path: str) -> dict[str, Any]:
    answer = await client.call("GET", path)
    if answer.status != OK:
        raise LoadError(f"{path} cannot be read: {explained(answer)}")
    found: dict[str, Any] = json.loads(answer.body)
    return found


class _Found:
    """The rounds found in the logs."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = ledgers
        self._times = [np.zeros(len(ledger.stages), dtype=np.int64) for ledger in ledgers]
        self._audit = Audit()

    def add(self, model: str, line: dict[str, Any]) -> None:
        """Count one line of a log."""
        self._audit.rounds_in_the_logs += 1
        try:
            process, number = map(int, str(line["prediction_id"]).removeprefix(f"{model}:").split("."))
            ledger = self._ledgers[process]
            stage, correct = ledger.stages[number], bool(ledger.correct[number])
        except (ValueError, LookupError):
            self._audit.unasked += 1
            return
        self._times[process][number] += 1
        self._audit.unasked += stage not in _SENT
        self._audit.altered += stage in _SENT and line["correct"] is not correct

    def compare(self, stored: int) -> Audit:
        """Compare with the ledgers; `stored` is the models' own count of predictions."""
        result = self._audit
        result.predictions_answered = self._count(*_KNOWN)
        result.predictions_refused = self._count(Stage.PREDICTION_REFUSED)
        result.feedbacks_acknowledged = self._count(Stage.ACKNOWLEDGED)
        result.feedbacks_refused = self._count(Stage.FEEDBACK_REFUSED)
        result.unknown = self._count(*_SILENT)
        result.predictions_lost = max(0, result.predictions_answered - stored)
        result.lost = sum(self._lost())
        result.repeated = sum(int(np.maximum(times - 1, 0).sum()) for times in self._times)
        return result

    def _count(self, *stages: Stage) -> int:
        return sum(ledger.count(stage) for ledger in self._ledgers for stage in stages)

    def _lost(self) -> Iterator[int]:
        for ledger, times in zip(self._ledgers, self._times, strict=True):
            stages = np.frombuffer(bytes(ledger.stages), dtype=np.uint8)
            yield int(((stages == Stage.ACKNOWLEDGED) & (times == 0)).sum())
