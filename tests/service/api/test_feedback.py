"""The HTTP contract of feedback."""

import pytest

from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.sample_models import GAPTRON, LABELS

# --- feedback


@pytest.mark.parametrize("correct", [True, False])
async def test_feedback_is_recorded_once_and_then_a_duplicate(api: Api, correct: bool) -> None:
    """The first feedback makes round 1; equal feedback returns `duplicate` with the first outcome and round."""
    await api.create()
    prediction_id = body_of(await api.predict(), 200)["prediction_id"]
    first = body_of(await api.judge(prediction_id, correct=correct), 200)
    said = {"correct": correct, "reward": float(correct)}
    assert first == {"prediction_id": prediction_id, "status": "recorded", "round": 1} | said
    assert body_of(await api.judge(prediction_id, correct=correct), 200) == first | {"status": "duplicate"}
    problem_of(await api.judge(prediction_id, correct=not correct), 409, "feedback-conflict", "correct")
    model = await api.model()
    assert (model["rounds_seen"], model["predictions"], model["correct"]) == (1, 1, int(correct))


async def test_feedback_may_have_the_true_label(api: Api) -> None:
    """With a true label, `correct` may be left out but must not contradict it; the log keeps the label."""
    await api.create()
    answer = body_of(await api.predict(), 200)
    prediction_id, drawn = answer["prediction_id"], answer["label"]
    truth = next(label for label in LABELS if label != drawn)
    problem_of(await api.judge(prediction_id, correct=True, true_label=truth), 422, "inconsistent-feedback", "correct")
    problem_of(await api.judge(prediction_id, true_label="purple"), 422, "unknown-label", "true_label")
    assert body_of(await api.judge(prediction_id, true_label=truth), 200)["correct"] is False
    assert body_of(await api.judge(prediction_id, correct=False, true_label=truth), 200)["status"] == "duplicate"
    problem_of(await api.judge(prediction_id, true_label=drawn), 409, "feedback-conflict", "true_label")
    (line,) = await api.rounds()
    assert (line["label"], line["true_label"], line["correct"]) == (drawn, truth, False)


async def test_full_information_needs_the_true_label(api: Api) -> None:
    """With full information, `correct: false` needs the true label, and `correct: true` implies it."""
    await api.create(learner=GAPTRON | {"information": "full"})
    first, second = [body_of(await api.predict(), 200) for _ in range(2)]
    problem_of(await api.judge(first["prediction_id"], correct=False), 422, "label-needed", "true_label")
    assert body_of(await api.judge(first["prediction_id"], correct=True), 200)["status"] == "recorded"
    assert body_of(await api.judge(second["prediction_id"], true_label=LABELS[0]), 200)["status"] == "recorded"
    assert [line["true_label"] for line in await api.rounds()] == [first["label"], LABELS[0]]
