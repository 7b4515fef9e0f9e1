"""The request and answer bodies of all peers, as in our API."""

from typing import Any

from pydantic import BaseModel


class PredictBody(BaseModel):
    """The body of /predict."""

    model: str
    context: list[float]


class FeedbackBody(BaseModel):
    """The body of /feedback."""

    prediction_id: str
    correct: bool


def answer(prediction_id: str, model: str, label: int, propensity: float, rounds: int) -> dict[str, Any]:
    """Return the answer of /predict."""
    return {
        "prediction_id": prediction_id,
        "model": model,
        "label": f"label-{label}",
        "propensity": propensity,
        "rounds_seen": rounds,
    }
