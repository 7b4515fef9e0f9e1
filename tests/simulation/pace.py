"""The weight of costs λ that a budget sets, by plain arithmetic: a pace after each round that a learner answered."""

import math
from typing import Any, NamedTuple

_FIRST, _LEAST, _MOST = 0.1, 0.001, 100.0  # of λ b


class Pace(NamedTuple):
    """What the rounds so far have taught about λ."""

    scaled: float = _FIRST  # λ b, for the last budget b with rounds
    owed: float = 0.0  # Σ (c/b - 1), within bounds
    lag: float = 0.0  # the mean lag
    rounds: int = 0
    since: int = 0  # rounds under this budget
    cost: float = 0.0  # b; 0 before the first round
    points: float = 0.0  # of the regression of c/b - 1 on ln λ b; the older, the less each counts
    level: float = 0.0  # the mean ln λ b of these points
    excess: float = 0.0  # their mean c/b - 1
    squares: float = 0.0  # Σ (ln λ b - mean)²
    products: float = 0.0

    def weight(self, budget: dict[str, Any]) -> float:
        """Return λ under a budget. Another budget b leaves λ as it is, within the bounds of λ b."""
        scaled = self.scaled if self.rounds == 0 else self.scaled / self.cost * budget["cost"]
        return 0.0 if scaled <= _LEAST * (1.0 + 1e-12) else min(scaled, _MOST) / budget["cost"]

    def after(self, budget: dict[str, Any], cost: float, weight: float, lag: float) -> "Pace":
        """Return the pace after a round, decided with this weight `lag` rounds before it, whose answer cost this."""
        b, before = budget["cost"], self
        if b != self.cost:
            before = Pace(max(_LEAST, self.weight(budget) * b), 0.0, self.lag, self.rounds, 0, b)
        rounds, since, excess = before.rounds + 1, before.since + 1, min(100.0, cost / b - 1.0)
        mean_lag = before.lag + (lag - before.lag) / min(rounds, 1000)
        time = 20.0 + mean_lag
        owed = min(10.0 * time, max(-2.0 * time, before.owed + (excess if lag < since else 0.0)))
        seen = before.with_point(max(100.0, 1.5 * time), math.log(min(_MOST, max(_LEAST, weight * b))), excess)
        slope = min(5.0, max(0.3, (20.0 - seen.products) / (20.0 + seen.squares)))
        aim = -min(0.8, max(-1.0, owed / (2.5 * time)))
        wanted, now = seen.level + (seen.excess - aim) / slope, math.log(before.scaled)
        scaled = math.exp(now + min(3.0 / time, max(-3.0 / time, wanted - now)))
        return seen._replace(
            scaled=min(_MOST, max(_LEAST, scaled)), owed=owed, lag=mean_lag, rounds=rounds, since=since
        )

    def with_point(self, remembered: float, level: float, excess: float) -> "Pace":
        """Return the pace with one more point in the regression."""
        kept = 1.0 - 1.0 / remembered
        points, from_mean = kept * self.points + 1.0, level - self.level
        mean_level, mean_excess = self.level + from_mean / points, self.excess + (excess - self.excess) / points
        squares = kept * self.squares + from_mean * (level - mean_level)
        products = kept * self.products + from_mean * (excess - mean_excess)
        return Pace(*self[:6], points, mean_level, mean_excess, squares, products)

    @staticmethod
    def in_state(state: Any) -> "Pace":
        """Return the pace that a state of a learner has; the first one if the learner weighs no costs."""
        level, owed, lag, rounds, since, cost, *points = map(float, getattr(state, "pacing", [0.0] * 11))
        return Pace(math.exp(level) if rounds else _FIRST, owed, lag, int(rounds), int(since), cost, *points)
