"""A reference model of the service in plain Python: the expected answer to each request, in sequence."""

from dataclasses import dataclass, field
from typing import Any

from tests.service.sample_models import Replay

WINDOW = 100.0


@dataclass
class Expected:
    answer: dict[str, Any]
    given: list[float]  # the context that the client sent
    made_at: float
    outcome: dict[str, Any] | None = None  # correct, true_label and round, after feedback


@dataclass
class Life:
    replay: Replay
    predictions: dict[str, Expected] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return len(self.replay.states) - 1

    def counters(self) -> tuple[int, int, int]:
        outcomes = [each.outcome for each in self.predictions.values() if each.outcome is not None]
        return len(outcomes), len(self.predictions), sum(outcome["correct"] for outcome in outcomes)

    def judge(self, prediction_id: str, feedback: dict[str, Any], now: float) -> tuple[int, str]:
        prediction = self.predictions.get(prediction_id)
        if prediction is None:
            return 404, "prediction-not-found"
        label, truth = prediction.answer["label"], feedback.get("true_label")
        correct = feedback.get("correct", truth == label)
        if truth is not None and correct != (truth == label):
            return 422, "inconsistent-feedback"
        truth = label if correct else truth
        if prediction.outcome is not None:
            return _compare(prediction.outcome, correct, truth)
        if now > prediction.made_at + WINDOW:
            return 404, "prediction-expired"
        prediction.outcome = {"correct": correct, "true_label": truth, "round": self.rounds + 1}
        drawn = {key: prediction.answer[key] for key in ("label", "propensity", "rounds_seen")}
        self.replay.add(drawn | prediction.outcome | {"context": prediction.given})
        return 200, "recorded"


def _compare(first: dict[str, Any], correct: bool, truth: str | None) -> tuple[int, str]:
    differs = None not in (truth, first["true_label"]) and truth != first["true_label"]
    return (409, "feedback-conflict") if correct != first["correct"] or differs else (200, "duplicate")
