"""The bodies that all peers take and give: ours."""

from typing import Any

from pydantic import BaseModel


class PredictBody(BaseModel):
    """Asks for an answer."""

    model: str
    context: list[float]


class FeedbackBody(BaseModel):
    """Says whether a prediction was right."""

    prediction_id: str
    correct: bool


def answer(prediction_id: str, model: str, label: int, propensity: float, rounds: int) -> dict[str, Any]:
    """What a prediction is answered with."""
    return {
        "prediction_id": prediction_id,
        "model": model,
        "label": f"label-{label}",
        "propensity": propensity,
        "rounds_seen": rounds,
    }
