"""What the published statistics of a model say in short. Workers store it in the model's hash, for lists of models.

Lists are sorted by it, and tell which models need attention, without decoding the statistics of every model.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.analytics.estimates import observed, subject_of
from service.analytics.verdicts import verdict_of
from service.models.model import Model
from service.replicas.statistics import RoundStatistics
from service.replicas.sums import joined

TROUBLES = ("dropped", "collapsed", "at_chance")
"""The verdicts that need attention, the worst first."""


class Overview(BaseModel):
    """The stored overview of a model."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    rounds: Annotated[int, Field(ge=0)] = 0
    """The number of rounds that the statistics count."""
    reward: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The mean reward of the latest rounds; None without any."""
    verdict: str = ""
    reason: str = ""
    """The reason for a verdict in `TROUBLES`; empty for others."""


NO_OVERVIEW = Overview()


def overview_of(model: Model, statistics: RoundStatistics, rounds: int) -> Overview:
    """Return the overview of a model; `rounds` is the number of rounds with these statistics."""
    latest, verdict = joined(statistics.latest), verdict_of(subject_of(model), statistics)
    reward = observed(latest.rounds, latest.reward, latest.squares).mean
    reason = verdict.reason if verdict.verdict in TROUBLES else ""
    return Overview(rounds=rounds, reward=reward, verdict=verdict.verdict, reason=reason)


def read_overview(stored: bytes) -> Overview:
    """Decode a stored overview; return that of no rounds if there is none, or if it is damaged: it is not essential."""
    try:
        return Overview.model_validate_json(stored) if stored else NO_OVERVIEW
    except ValidationError:
        return NO_OVERVIEW
