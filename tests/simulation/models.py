"""The models of a simulation."""

from collections.abc import Mapping
from typing import Any

from tests.service.sample_models import GAPTRON, SIZE
from tests.simulation.log_rounds import Asked

CHANGED, GUEST, FLAG = "plain", "guest", "flag"
"""The model that a client changes, the one that comes and goes, and the one that is evaluated as a flag."""

SQUARECB: Mapping[str, Any] = {"algorithm": "squarecb"}
"""A learner that weighs costs, with a small state."""

_VECTOR = "v"
_OF_VECTOR: Mapping[str, Any] = {
    "kind": "named",
    "size": 1,
    "intercept": False,
    "fields": {_VECTOR: {"type": "vector", "size": SIZE, "required": True}},
}
"""Contexts with one vector, under this name."""

_COSTS = {"red": 1.0, "green": 0.2, "none": 0.05}

MODELS: Mapping[str, Mapping[str, Any]] = {
    CHANGED: {
        "learner": SQUARECB,
        "on_expiry": "incorrect",
        "learn": "on_arrival",
        "costs": _COSTS,
        "budget": {"cost": 0.3},
        "retain_rounds": 0,
        "window_seconds": 600.0,
    },
    "clicks": {
        "learner": SQUARECB,
        "costs": _COSTS,
        "budget": {"cost": 0.2},
        "on_expiry": "incorrect",
        "window_seconds": 3.0,
        "rules": {
            "floor": {"green": 0.3},
            "cap": {"warm": 0.4},
            "floor_each": 0.05,
            "groups": {"warm": ["red", "blue"]},
        },
        "learn": "on_arrival",
        "retain_rounds": 0,
    },
    "closing": {"learner": GAPTRON, "on_expiry": "incorrect", "window_seconds": 2.0, "learn": "at_window_close"},
    "late": {
        "learner": GAPTRON,
        "features": _OF_VECTOR,
        "window_seconds": 2.0,
        "late_feedback": "accept",
        "freshness": {"max_lag_seconds": 0.5},
        "retain_seconds": 60.0,
    },
    FLAG: {
        "learner": {"algorithm": "fastcb", "half_life_rounds": 20.0},
        "features": _OF_VECTOR,
        "window_seconds": 700.0,  # the simulation begins in the middle of such a period
        "ofrep": {"bulk": True, "sticky_seconds": 700.0},
    },
    GUEST: {"learner": SQUARECB, "costs": _COSTS, "cost_weight": 0.5, "window_seconds": 30.0},
}
"""The policies of each model."""


def context_of(model: str, numbers: list[float]) -> Any:
    """Return a context of a model with these numbers, (SIZE,)."""
    return {_VECTOR: numbers} if "features" in MODELS[model] else numbers


def numbers_of(context: Any) -> Asked:
    """Return the numbers of a context of any model."""
    return tuple(context[_VECTOR] if isinstance(context, dict) else context)
