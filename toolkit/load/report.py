"""The report on a run of the load generator, as JSON and as text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from service.error_messages.values import counted
from service.json_values import JsonObject
from toolkit.load.audit import Audit
from toolkit.load.generator import Result
from toolkit.load.ledger import PREDICTED, Ledger
from toolkit.load.plan import Plan
from toolkit.load.timing import Histogram, Measured

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
BUSY = 0.9
"""Share of a core above which a generator counts as saturated."""
LATE_SECONDS = 0.01
"""The driver counts as late if more than 1 % of its requests start this much after they are due."""

SATURATED = "The driver was saturated, so the figures measure the driver. Use more --processes or a separate machine."
WRONG = "WRONG: the logs or the models' counts contradict what the service acknowledged."
LATE = "Other programs delayed the driver, so the latencies include its waiting. Use a separate machine."


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
    def of(cls, plan: Plan, results: Sequence[Result], audit: Audit) -> "Report":
        """Combine the results of all processes with the audit."""
        ledgers, cpu = [result.ledger for result in results], [result.cpu for result in results]
        report = cls(plan, Measured(), Measured(), Histogram(), cpu, ledgers, Counter(), audit)
        for result in results:
            report.predict.merge(result.predict)
            report.feedback.merge(result.feedback)
            report.lag.merge(result.lag)
            report.problems.update(result.problems)
        return report

    @property
    def saturated(self) -> bool:
        """Whether a generator used more than `BUSY` of a core."""
        return max(self.cpu) > BUSY

    @property
    def late(self) -> bool:
        """Whether the generators could not keep to their schedule."""
        return self.lag.percentile(99) > LATE_SECONDS

    def accuracy(self, share: float = 1.0) -> float:
        """Return the accuracy of the answers in the last `share` of each process's rounds; 0 without answers."""
        right = known = 0
        for ledger in self.ledgers:
            since = round(len(ledger.stages) * (1 - share))
            answered = ledger.at(*PREDICTED)[since:]
            known += int(answered.sum())
            right += int(np.frombuffer(bytes(ledger.correct), dtype=np.uint8)[since:][answered].sum())
        return right / max(1, known)

    def to_json(self) -> JsonObject:
        """Return all printed figures, and the plan."""
        return {
            "plan": self.plan.as_json(),
            "predict": _measurements(self.predict),
            "feedback": _measurements(self.feedback),
            "driver": {
                "cpu": self.cpu,
                "lag_ms": _milliseconds(self.lag),
                "saturated": self.saturated,
                "late": self.late,
            },
            "accuracy": {"all": self.accuracy(), "last_quarter": self.accuracy(0.25), "guessing": 1 / self.plan.labels},
            "correctness": self.audit.to_json(),
            "problems": dict(self.problems),
        }

    def print(self, console: Console) -> None:
        """Print the figures and the verdict."""
        console.print(self._speed())
        correctness = Table("rounds", "", title="Correctness of the whole run", title_justify="left")
        for name, count in self.audit.to_json().items():
            correctness.add_row(name.replace("_", " "), f"{count:,}")
        correctness.columns[1].justify = "right"
        console.print(correctness)
        last, guessing = self.accuracy(0.25), 1 / self.plan.labels
        console.print(f"Accuracy   {self.accuracy():.1%}, in the last quarter {last:.1%}; guessing {guessing:.1%}")
        cpu = ", ".join(f"{share:.0%}" for share in self.cpu)
        late = self.lag.percentile(99) * 1000
        console.print(f"Driver     {cpu} of a core; one request in a hundred started more than {late:.2f} ms late")
        for problem, times in self.problems.most_common(5):
            console.print(f"Problem    {counted(times, 'times')}: {problem}", markup=False)
        if self.saturated or self.late:
            console.print(SATURATED if self.saturated else LATE, style="bold yellow")
        if self.audit.wrong:
            style, verdict = "bold red", WRONG
        elif unknown := self.audit.unknown:
            style, rounds = "yellow", counted(unknown, "rounds")
            verdict = f"Not settled: the outcome of {rounds} is unknown; no known outcome is wrong."
        else:
            style, verdict = "green", "The logs hold every acknowledged feedback exactly once."
        console.print(verdict, style=style)

    def _speed(self) -> Table:
        title = "Requests; latency from the time each was due"
        table = Table("", "predict", "feedback", title=title, title_justify="left")
        for column in table.columns[1:]:
            column.justify = "right"
        predict, feedback = _measurements(self.predict), _measurements(self.feedback)
        for name in ("offered_per_second", "achieved_per_second"):
            table.add_row(name.replace("_", " "), f"{predict[name]:,.1f}", f"{feedback[name]:,.1f}")
        for name, latency in predict["latency_ms"].items():
            table.add_row(f"{name}, ms", f"{latency:,.2f}", f"{feedback['latency_ms'][name]:,.2f}")
        for name in ("not_sent", "no_answer", "refused"):
            table.add_row(name.replace("_", " "), f"{predict[name]:,}", f"{feedback[name]:,}")
        return table


def _measurements(measured: Measured) -> JsonObject:
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
