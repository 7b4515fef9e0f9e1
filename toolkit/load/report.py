"""The report of a load, as JSON and as text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from toolkit.load.audit import Audit
from toolkit.load.fleet import Part
from toolkit.load.ledger import Ledger, Stage
from toolkit.load.plan import Plan
from toolkit.load.timing import Histogram, Measured

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
BUSY = 0.9
"""Share of a core above which a generator counts as saturated."""
LATE_SECONDS = 0.01
"""A generator counts as saturated if it starts one in a hundred requests later than this."""

SATURATED = "The driver was saturated, so the figures measure the driver. Use more --processes or a separate machine."


@dataclass
class Report:
    """The figures of a run."""

    plan: Plan
    predict: Measured
    feedback: Measured
    lag: Histogram
    cpu: list[float]
    ledgers: list[Ledger]
    problems: Counter[str]
    audit: Audit

    @classmethod
    def of(cls, plan: Plan, parts: Sequence[Part], audit: Audit) -> "Report":
        """Combine the results of all processes with the audit."""
        whole = cls(plan, Measured(), Measured(), Histogram(), [], [], Counter(), audit)
        for part in parts:
            whole.predict.merge(part.predict)
            whole.feedback.merge(part.feedback)
            whole.lag.merge(part.lag)
            whole.cpu.append(part.cpu)
            whole.ledgers.append(part.ledger)
            whole.problems.update(part.problems)
        return whole

    @property
    def saturated(self) -> bool:
        """Whether the generators could not keep their own schedule."""
        return max(self.cpu) > BUSY or self.lag.percentile(99) > LATE_SECONDS

    def accuracy(self, share: float = 1.0) -> float:
        """Return the share of right predictions among the last `share` of each process's predictions."""
        right = known = 0
        for ledger in self.ledgers:
            since = round(len(ledger.stages) * (1 - share))
            stages = np.frombuffer(bytes(ledger.stages), dtype=np.uint8)[since:]
            answered = np.isin(
                stages, (Stage.ANSWERED, Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED, Stage.FEEDBACK_REFUSED)
            )
            known += int(answered.sum())
            right += int(np.frombuffer(bytes(ledger.correct), dtype=np.uint8)[since:][answered].sum())
        return right / max(1, known)

    def to_json(self) -> dict[str, Any]:
        """Return all printed figures, and the plan."""
        return {
            "plan": self.plan.as_json(),
            "predict": _measurements(self.predict),
            "feedback": _measurements(self.feedback),
            "driver": {"cpu": self.cpu, "lag_ms": _milliseconds(self.lag), "saturated": self.saturated},
            "accuracy": {"all": self.accuracy(), "last_quarter": self.accuracy(0.25), "guessing": 1 / self.plan.labels},
            "correctness": self.audit.to_json(),
            "problems": dict(self.problems),
        }

    def print(self, console: Console) -> None:
        """Print the figures and the verdict."""
        console.print(_speed(self.predict, self.feedback))
        console.print(_correctness(self.audit))
        last = self.accuracy(0.25)
        console.print(
            f"Accuracy   {self.accuracy():.1%}, in the last quarter {last:.1%}; guessing {1 / self.plan.labels:.1%}"
        )
        cpu = ", ".join(f"{share:.0%}" for share in self.cpu)
        late = self.lag.percentile(99) * 1000
        console.print(f"Driver     {cpu} of a core; one request in a hundred started more than {late:.2f} ms late")
        for problem, times in self.problems.most_common(5):
            console.print(f"Problem    {times} times {problem}", markup=False)
        if self.saturated:
            console.print(SATURATED, style="bold yellow")
        said, style = self._verdict()
        console.print(said, style=style)

    def _verdict(self) -> tuple[str, str]:
        if self.audit.wrong:
            return "WRONG: the logs differ from the acknowledged feedback.", "bold red"
        if self.audit.unknown:
            return (
                f"Not settled: the outcome of {self.audit.unknown} rounds is unknown; no known outcome is wrong.",
                "yellow",
            )
        return "The logs hold every acknowledged feedback exactly once.", "green"


def _measurements(measured: Measured) -> dict[str, Any]:
    return {
        "requests": measured.due,
        "offered_per_second": measured.offered,
        "achieved_per_second": measured.achieved,
        "not_sent": measured.not_sent,
        "no_answer": measured.no_answer,
        "refused": measured.refused,
        "latency_ms": _milliseconds(measured.latency),
    }


def _milliseconds(histogram: Histogram) -> dict[str, float]:
    shares = {f"p{percent:g}": round(histogram.percentile(percent) * 1000, 3) for percent in PERCENTILES}
    return {**shares, "max": round(histogram.greatest * 1000, 3)}


def _speed(predict: Measured, feedback: Measured) -> Table:
    table = Table("", "predict", "feedback", title="Requests; latency from the time each was due", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for name in ("offered", "achieved"):
        table.add_row(f"{name} per second", *(f"{getattr(each, name):,.1f}" for each in (predict, feedback)))
    latencies = [_milliseconds(each.latency) for each in (predict, feedback)]
    for name in latencies[0]:
        table.add_row(f"{name}, ms", *(f"{each[name]:,.2f}" for each in latencies))
    for name in ("not_sent", "no_answer", "refused"):
        table.add_row(name.replace("_", " "), *(f"{getattr(each, name):,}" for each in (predict, feedback)))
    return table


def _correctness(audit: Audit) -> Table:
    table = Table("rounds", "", title="Correctness of the whole run", title_justify="left")
    table.columns[1].justify = "right"
    for name, count in audit.to_json().items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    return table
