"""The measurements of one kind of request."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from service.load.timing.histogram import Histogram


@dataclass
class Measured:
    """Counts and latencies of the requests that were due within a time window."""

    seconds: float = 0.0
    """Length of the window."""
    due: int = 0
    """Requests that were due."""
    answered: int = 0
    """Responses with status 200 that came within the window, even if the request was due earlier."""
    not_sent: int = 0
    """Due requests that were not sent because too many were outstanding."""
    no_answer: int = 0
    """Sent requests without a response: the connection was lost or the timeout passed."""
    refused: int = 0
    """Requests answered with another status than 200."""
    latency: Histogram = field(default_factory=Histogram)
    """Seconds from the time a request was due until its response, or until the client gave up."""

    @property
    def offered(self) -> float:
        """The requests due per second."""
        return self.due / self.seconds if self.seconds else 0.0

    @property
    def achieved(self) -> float:
        """The responses with status 200 per second."""
        return self.answered / self.seconds if self.seconds else 0.0

    def merge(self, other: Self) -> None:
        """Add the measurements of another process in the same window."""
        self.seconds = max(self.seconds, other.seconds)
        for name in ("due", "answered", "not_sent", "no_answer", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latency.merge(other.latency)

    def to_json(self) -> dict[str, Any]:
        """Return all fields in the form that `from_json` reads."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"latency": self.latency.to_json()}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`."""
        return cls(**{**written, "latency": Histogram.from_json(written["latency"])})
