"""An A/B test replaced by a model with a holdout: the old rule keeps a fifth of the visits, for a fair comparison.

.venv/bin/python examples/ab_test.py [--url URL] [--rounds N] [--seed N]
"""

import math
import random
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from wager_client import Wager

HOLDOUT = 0.2
CONVERSION = {
    "desktop": {"short": 0.3, "long": 0.1, "express": 0.9},
    "phone": {"short": 0.3, "long": 0.1, "express": 0.1},
}
"""How often visitors buy. The old rule is wrong about desktops."""

_Z = 1.96  # 95 %


class Uplift(NamedTuple):
    """The mean rewards and their difference, with its 95 % interval."""

    rule: float
    model: float
    low: float
    high: float


def old_rule(device: str) -> str:
    """Return the checkout page that the shop shows so far."""
    return "long" if device == "desktop" else "short"


def run(wager: Wager, rounds: int, seed: int) -> Uplift:
    """Serve visits, then compare the holdout with the model on the log; print and return the uplift."""
    visits = random.Random(seed)
    name = f"checkout-{uuid.uuid4().hex[:8]}"
    wager.create_model(
        name,
        labels=["short", "long", "express"],
        features={"kind": "named"},
        holdout={"fraction": HOLDOUT, "policy": "baseline"},  # the service draws who gets the old rule
    )
    for _ in range(rounds):
        device = visits.choice(["desktop", "phone"])
        page = wager.predict(name, {"device": device}, baseline=old_rule(device), default=old_rule(device))
        wager.feedback(page, correct=visits.random() < _conversion(device, str(page.label)))
    found = uplift(wager, name)
    print(f"old rule {found.rule:.1%}, model {found.model:.1%}")
    print(f"difference {found.model - found.rule:+.1%}, 95 % interval [{found.low:+.1%}, {found.high:+.1%}]")
    print("The model is better." if found.low > 0 else "Not decided yet: keep both.")
    return found


def uplift(wager: Wager, name: str) -> Uplift:
    """Compare the rounds of the holdout with those of the model, from its log.

    Both halves of the comparison come from the same time and the same visitors, so their means can be subtracted.
    """
    rewards: dict[bool, list[float]] = {True: [], False: []}
    for each in wager.rounds(name):
        rewards[each.holdout].append(each.reward or 0.0)
    rule, model = _mean(rewards[True]), _mean(rewards[False])
    margin = _Z * math.sqrt(_variance_of_mean(rewards[True]) + _variance_of_mean(rewards[False]))
    return Uplift(rule, model, model - rule - margin, model - rule + margin)


def _conversion(device: str, page: str) -> float:
    """Return the probability of a purchase."""
    return CONVERSION[device][page]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def _variance_of_mean(values: Sequence[float]) -> float:
    mean, n = _mean(values), len(values)
    return sum((value - mean) ** 2 for value in values) / max(1, n - 1) / max(1, n)


if __name__ == "__main__":
    from example_service import main

    main(run, 3000)
