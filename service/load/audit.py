"""Whether the logs hold what was acknowledged: each round once, with its outcome, and nothing else."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from service.load.http.client import Client
from service.load.http.errors import LoadError
from service.load.http.sender import OK
from service.load.ledger import Ledger, Stage
from service.load.models import explained

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
    """Acknowledged, and not in a log."""
    repeated: int = 0
    """In the logs more often than once: the times beyond the first."""
    altered: int = 0
    """In a log with another outcome than was told."""
    unasked: int = 0
    """In a log without any feedback of ours."""
    predictions_lost: int = 0
    """Answered, and missing in the models' count of their predictions."""
    unknown: int = 0
    """No answer ever told whether they were recorded; they may be or not."""

    @property
    def wrong(self) -> int:
        """How much contradicts what the service promised."""
        return self.lost + self.repeated + self.altered + self.unasked + self.predictions_lost

    def to_json(self) -> dict[str, int]:
        """All counts."""
        return asdict(self)


async def audit(client: Client, models: Sequence[str], ledgers: Sequence[Ledger], read: Callable[[int], None]) -> Audit:
    """Reads the logs of all models and compares.

    Args:
        client: Of the service.
        models: Their names.
        ledgers: What each process knows.
        read: Is told how many rounds have been read, now and then.

    Raises:
        LoadError: when a log cannot be read.
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
    """What the logs hold."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = ledgers
        self._times = [np.zeros(len(ledger.stages), dtype=np.int64) for ledger in ledgers]
        self._audit = Audit()

    def add(self, model: str, line: dict[str, Any]) -> None:
        """Counts a line of a log."""
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
        """Compares with what the processes know; `stored` predictions are counted by the models."""
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
