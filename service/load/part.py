"""The result of one generator process."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from service.load.ledger import Ledger
from service.load.timing.histogram import Histogram
from service.load.timing.measured import Measured


@dataclass
class Part:
    """The measurements and the ledger of one process."""

    predict: Measured = field(default_factory=Measured)
    feedback: Measured = field(default_factory=Measured)
    lag: Histogram = field(default_factory=Histogram)
    """How late the process started its requests."""
    cpu: float = 0.0
    """Share of one core that the process used during the measured time."""
    ledger: Ledger = field(default_factory=Ledger)
    problems: Counter[str] = field(default_factory=Counter)
    """Counts of refusals by status and message, and of missing responses."""

    def to_json(self) -> dict[str, Any]:
        """Return all fields in the form that `from_json` reads."""
        written = {name: getattr(self, name).to_json() for name in ("predict", "feedback", "lag", "ledger")}
        return {**written, "cpu": self.cpu, "problems": dict(self.problems)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`."""
        return cls(
            predict=Measured.from_json(written["predict"]),
            feedback=Measured.from_json(written["feedback"]),
            lag=Histogram.from_json(written["lag"]),
            cpu=written["cpu"],
            ledger=Ledger.from_json(written["ledger"]),
            problems=Counter(written["problems"]),
        )
