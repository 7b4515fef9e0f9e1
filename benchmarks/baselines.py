"""What a user could write without this project: applications with /predict and /feedback that do nothing.

They run in separate processes, without middleware, checks of keys, counters or a store.
"""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel


class Asked(BaseModel):
    """A request for a prediction."""

    model: str
    context: list[float]


class Action(BaseModel):
    """An action with named features."""

    id: str
    features: dict[str, float | str | bool]


class AskedWithActions(BaseModel):
    """A request for a prediction that brings its actions."""

    model: str
    context: dict[str, Any]
    actions: list[Action]


class Drawn(BaseModel):
    """The answer to a request for a prediction."""

    prediction_id: str
    label: str
    propensity: float


class Given(BaseModel):
    """Feedback on a prediction."""

    prediction_id: str
    correct: bool


class Recorded(BaseModel):
    """The answer to feedback."""

    status: str
    round: int


def plain_fastapi() -> FastAPI:
    """Create a FastAPI application that validates requests by pydantic, and answers constants."""
    app = FastAPI()

    @app.post("/predict")
    async def predict(asked: Asked) -> Drawn:
        del asked
        return _drawn()

    @app.post("/feedback")
    async def feedback(given: Given) -> Recorded:
        del given
        return Recorded(status="recorded", round=1000)

    return app


def fastapi_with_actions() -> FastAPI:
    """Create an application as `plain_fastapi` does, for predictions with actions."""
    app = FastAPI()

    @app.post("/predict")
    async def predict(asked: AskedWithActions) -> Drawn:
        del asked
        return _drawn()

    return app


def _drawn() -> Drawn:
    return Drawn(prediction_id="bench:AZ3kNDvx0000000000AA", label="label-3", propensity=0.905)
