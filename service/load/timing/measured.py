"""What was measured of one kind of request."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from service.load.timing.histogram import Histogram


@dataclass
class Measured:
    """Counts and latencies of the requests that were due within a window of time."""

    seconds: float = 0.0
    """Length of the window."""
    due: int = 0
    """Requests that were due."""
    answered: int = 0
    """Answers of status 200 that came within the window, whenever they were due."""
    not_sent: int = 0
    """Due, and not sent because too many were under way."""
    no_answer: int = 0
    """Sent, and no answer came: the connection was lost, or the time was up."""
    refused: int = 0
    """Answered by any status but 200."""
    latency: Histogram = field(default_factory=Histogram)
    """Seconds from the moment a request was due to its answer, or to when that was given up."""

    @property
    def offered(self) -> float:
        """Requests due per second."""
        return self.due / self.seconds if self.seconds else 0.0

    @property
    def achieved(self) -> float:
        """Answers of status 200 per second."""
        return self.answered / self.seconds if self.seconds else 0.0

    def merge(self, other: Self) -> None:
        """Adds what another process measured in the same window."""
        self.seconds = max(self.seconds, other.seconds)
        for name in ("due", "answered", "not_sent", "no_answer", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latency.merge(other.latency)

    def to_json(self) -> dict[str, Any]:
        """Every field, as `from_json` reads them."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"latency": self.latency.to_json()}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        return cls(**{**written, "latency": Histogram.from_json(written["latency"])})
