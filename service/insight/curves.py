"""The curve of rewards over the course of a log, for clients."""

import itertools

from service.insight.bounds import bound_of
from service.insight.estimates import observed
from service.insight.subject import Subject
from service.replicas.statistics import RoundStatistics
from service.schemas.reports.statistics import CurveAnswer, CurvePoint, MeanAnswer


def curve_answer(subject: Subject, statistics: RoundStatistics) -> CurveAnswer:
    """Return the curve, with the estimate for uniform draws and the theorem's bound up to each point."""
    curve = statistics.curve
    sums = [itertools.accumulate(column) for column in curve[2:]]
    points = []
    for i, totals in enumerate(zip(*sums, strict=True)):
        rounds, reward, _, weights, weighted = totals
        mean = observed(curve.rounds[i], curve.rewards[i], curve.squares[i])
        points.append(
            CurvePoint(
                last_round=statistics.uncounted + min((i + 1) * curve.width, curve.places),
                rounds=curve.rounds[i],
                reward=MeanAnswer(mean=mean.mean, low=mean.low, high=mean.high, rounds=mean.rounds),
                cumulative=reward / rounds if rounds else None,
                uniform=weighted / weights if weights and statistics.labels is not None else None,
                bound=bound_of(subject.learner, rounds).accuracy(rounds),
            )
        )
    return CurveAnswer(rounds_per_point=curve.width, points=points)


def sparkline(statistics: RoundStatistics, most: int) -> list[float | None]:
    """Return at most `most` mean rewards over the course of the log."""
    curve = statistics.curve
    size = max(1, -(-len(curve.rounds) // most))
    starts = range(0, len(curve.rounds), size)
    parts = [(sum(curve.rewards[i : i + size]), sum(curve.rounds[i : i + size])) for i in starts]
    return [reward / n if n else None for reward, n in parts]
