"""The HTTP contract of predictions."""

from datetime import datetime

import pytest

from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.sample_models import GAPTRON, LABELS, SOBA_DIAGONAL, some_contexts
from tests.service.workers import START

# --- predictions


async def test_a_prediction_answers_what_was_drawn(api: Api) -> None:
    """The answer names a label of the model, its probability in the distribution, and when the window closes."""
    await api.create(window_seconds=90.0)
    answer = body_of(await api.predict(include_distribution=True), 200)
    assert answer["prediction_id"].startswith(f"{api.name}:")
    assert answer["model"] == api.name
    assert list(answer["distribution"]) == LABELS
    assert answer["distribution"][answer["label"]] == answer["propensity"]
    assert sum(answer["distribution"].values()) == pytest.approx(1.0)
    assert datetime.fromisoformat(answer["expires_at"]).timestamp() == START + 90.0
    assert answer["rounds_seen"] == 0


async def test_a_distribution_is_told_on_demand(api: Api) -> None:
    """Without `include_distribution` it is null."""
    await api.create()
    assert body_of(await api.predict(), 200)["distribution"] is None


async def test_every_prediction_has_its_own_id(api: Api) -> None:
    """Ids made by the service differ, and each is a stored prediction."""
    await api.create()
    ids = {body_of(await api.predict(), 200)["prediction_id"] for _ in range(10)}
    assert len(ids) == 10
    assert (await api.model())["predictions"] == 10


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("qualified", [False, True], ids=["bare", "qualified"])
async def test_asking_again_returns_the_stored_prediction(api: Api, closed: bool, qualified: bool) -> None:
    """The same id and context bring the same label, propensity and moments, however much was learned since."""
    await api.create(learner=GAPTRON)
    first = body_of(await api.predict(prediction_id="mine"), 200)
    assert first["prediction_id"] == f"{api.name}:mine"
    for context in some_contexts(1, 20):
        other = body_of(await api.predict(context), 200)
        await api.judge(other["prediction_id"], correct=True)
    if closed:
        await api.judge(first["prediction_id"], correct=False)
    prediction_id = first["prediction_id"] if qualified else "mine"
    for _ in range(5):
        assert body_of(await api.predict(prediction_id=prediction_id), 200) == first
    assert (await api.model())["predictions"] == 21


async def test_an_id_with_another_context_is_a_conflict(api: Api) -> None:
    """A used id is refused for another context, and the stored prediction stays as it is."""
    await api.create()
    first = body_of(await api.predict(prediction_id="mine"), 200)
    problem_of(await api.predict([0.6, 0.8, 1e-9], prediction_id="mine"), 409, "prediction-conflict", "prediction_id")
    assert body_of(await api.predict(prediction_id="mine"), 200) == first


async def test_the_services_own_id_cannot_be_claimed(api: Api) -> None:
    """An id that the service made is refused, even with the same context."""
    await api.create()
    made = body_of(await api.predict(), 200)["prediction_id"]
    problem_of(await api.predict(prediction_id=made), 422, "invalid-name", "prediction_id")


async def test_an_id_of_another_model_is_refused(api: Api) -> None:
    """`<model>:<id>` must name the model that is asked."""
    await api.create()
    problem_of(await api.predict(prediction_id="other:mine"), 422, "invalid-identifier", "prediction_id")


async def test_a_prediction_sees_the_feedback_before_it(api: Api) -> None:
    """`rounds_seen` counts every round that was acknowledged before the call."""
    await api.create(learner=SOBA_DIAGONAL)
    for rounds in range(5):
        answer = body_of(await api.predict(), 200)
        assert answer["rounds_seen"] == rounds
        await api.judge(answer["prediction_id"], correct=True)
