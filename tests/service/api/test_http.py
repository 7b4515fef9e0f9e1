"""The HTTP contract: every route, at the root and under /v1."""

import json
from datetime import datetime
from typing import Any

import httpx2
import pytest

from learners.registry import ALL_LEARNERS
from tests.service.sample_models import GAPTRON, LABELS, SIZE, SOBA_DIAGONAL, definition, some_contexts
from tests.service.workers import START

X = [0.6, 0.8, 0.0]
PROBLEM = "application/problem+json"


class Api:
    """The routes under a prefix, with the model of this test."""

    def __init__(self, client: httpx2.AsyncClient, prefix: str, name: str) -> None:
        self._client = client
        self._prefix = prefix
        self.name = name

    async def post(self, path: str, **body: Any) -> httpx2.Response:
        """Posts an object as JSON."""
        return await self._client.post(self._prefix + path, json=body)

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        """Gets a resource."""
        return await self._client.get(self._prefix + path, params=query)

    async def delete(self, path: str) -> httpx2.Response:
        """Deletes a resource."""
        return await self._client.delete(self._prefix + path)

    async def create(self, **fields: Any) -> httpx2.Response:
        """Creates the model of this test."""
        return await self.post("/models", **definition(self.name, **fields))

    async def model(self) -> dict[str, Any]:
        """The model as it is now."""
        return body_of(await self.get(f"/models/{self.name}"), 200)

    async def predict(self, context: list[float] = X, **fields: Any) -> httpx2.Response:
        """Asks the model of this test for a label."""
        return await self.post("/predict", model=self.name, context=context, **fields)

    async def judge(self, prediction_id: str, **said: Any) -> httpx2.Response:
        """Gives feedback."""
        return await self.post("/feedback", prediction_id=prediction_id, **said)

    async def rounds(self, **query: Any) -> list[dict[str, Any]]:
        """Lines of the log."""
        response = await self.get(f"/models/{self.name}/rounds", **query)
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.text.splitlines()]


def body_of(response: httpx2.Response, status: int) -> dict[str, Any]:
    """The JSON object of an answer that has this status."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


def problem_of(response: httpx2.Response, status: int, slug: str, field: str | None = None) -> dict[str, Any]:
    """The problem of an answer, which must be this one."""
    assert response.headers["content-type"] == PROBLEM
    problem = body_of(response, status)
    told = (problem["type"], problem["status"], problem.get("field"))
    assert told == (f"urn:wager:problem:{slug}", status, field)
    return problem


@pytest.fixture(params=["", "/v1"], ids=["root", "v1"])
def api(client: httpx2.AsyncClient, request: pytest.FixtureRequest, name: str) -> Api:
    """The routes at the root, and under /v1."""
    return Api(client, request.param, name)


# --- models


async def test_a_created_model_is_answered_whole(api: Api) -> None:
    """Creation answers 201, the Location, and the model with every default written out."""
    response = await api.create(learner=GAPTRON, window_seconds=60.0)
    model = body_of(response, 201)
    assert response.headers["location"] == f"/models/{api.name}"
    assert (model["name"], model["labels"], model["window_seconds"]) == (api.name, LABELS, 60.0)
    assert model["features"] == {"kind": "dense", "size": SIZE, "norm": "unit", "norm_bound": 1.0}
    assert model["learner"] | GAPTRON == model["learner"]
    assert model["learner"]["exploration"] == "anytime"
    assert (model["rounds_seen"], model["predictions"], model["correct"]) == (0, 0, 0)
    assert datetime.fromisoformat(model["created_at"]).timestamp() == START
    assert await api.model() == model


async def test_without_a_learner_a_model_gets_the_recommended_one(api: Api) -> None:
    """The learner that `GET /learners` recommends is the default, and is written into the model."""
    learners = body_of(await api.get("/learners"), 200)["learners"]
    (recommended,) = (learner["algorithm"] for learner in learners if learner["recommended"])
    assert body_of(await api.create(learner=None), 201)["learner"]["algorithm"] == recommended


async def test_a_name_is_given_once(api: Api) -> None:
    """Creating under a taken name is a conflict, even with the same body, and changes nothing."""
    model = body_of(await api.create(), 201)
    problem_of(await api.create(), 409, "model-exists", "name")
    problem_of(await api.create(labels=["a", "b"]), 409, "model-exists", "name")
    assert await api.model() == model


async def test_models_are_listed_by_cursor(api: Api) -> None:
    """Following `next_cursor` brings every model once, in the order of the names, and ends with null."""
    names = sorted(f"{api.name}-{letter}" for letter in "cabed")
    for each in reversed(names):
        await api.post("/models", **definition(each))
    cursor: str | None = api.name
    found: list[str] = []
    while len(found) < 5:
        page = body_of(await api.get("/models", cursor=cursor, limit=2), 200)
        found += [model["name"] for model in page["models"]]
        cursor = page["next_cursor"]
    assert found[:5] == names
    assert body_of(await api.get("/models", cursor="zzz"), 200) == {"models": [], "next_cursor": None}


async def test_a_deleted_model_is_gone(api: Api) -> None:
    """Deletion answers 204 without a body; then the model is unknown to every route."""
    await api.create()
    prediction = body_of(await api.predict(), 200)["prediction_id"]
    response = await api.delete(f"/models/{api.name}")
    assert (response.status_code, response.content) == (204, b"")
    problem_of(await api.delete(f"/models/{api.name}"), 404, "model-not-found", "name")
    problem_of(await api.get(f"/models/{api.name}"), 404, "model-not-found", "name")
    problem_of(await api.get(f"/models/{api.name}/rounds"), 404, "model-not-found", "name")
    problem_of(await api.predict(), 404, "model-not-found", "model")
    problem_of(await api.judge(prediction, correct=True), 404, "model-not-found", "prediction_id")


async def test_a_model_made_again_knows_nothing_of_its_predecessor(api: Api) -> None:
    """Under the same name a new life begins: no rounds, no counters, and old predictions are unknown."""
    await api.create()
    for number in range(3):
        answer = body_of(await api.predict(prediction_id=f"p{number}"), 200)
        await api.judge(answer["prediction_id"], correct=True)
    await api.predict(prediction_id="open")
    await api.delete(f"/models/{api.name}")
    await api.create(learner=GAPTRON)
    problem_of(await api.judge(f"{api.name}:open", correct=True), 404, "prediction-not-found", "prediction_id")
    assert await api.rounds() == []
    assert body_of(await api.predict(prediction_id="p0", include_distribution=True), 200)["distribution"] is not None
    model = await api.model()
    assert (model["rounds_seen"], model["predictions"], model["correct"]) == (0, 1, 0)


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


# --- feedback


@pytest.mark.parametrize("correct", [True, False])
async def test_feedback_is_recorded_once_and_then_a_duplicate(api: Api, correct: bool) -> None:
    """The first feedback makes round 1; the same again says `duplicate`, with the first outcome and round."""
    await api.create()
    prediction_id = body_of(await api.predict(), 200)["prediction_id"]
    first = body_of(await api.judge(prediction_id, correct=correct), 200)
    assert first == {"prediction_id": prediction_id, "correct": correct, "status": "recorded", "round": 1}
    assert body_of(await api.judge(prediction_id, correct=correct), 200) == first | {"status": "duplicate"}
    problem_of(await api.judge(prediction_id, correct=not correct), 409, "feedback-conflict", "correct")
    model = await api.model()
    assert (model["rounds_seen"], model["predictions"], model["correct"]) == (1, 1, int(correct))


async def test_feedback_may_tell_the_true_label(api: Api) -> None:
    """The bit follows from the label, and the log keeps it; telling both is fine if they agree."""
    await api.create()
    answer = body_of(await api.predict(), 200)
    prediction_id, drawn = answer["prediction_id"], answer["label"]
    truth = next(label for label in LABELS if label != drawn)
    problem_of(await api.judge(prediction_id, correct=True, true_label=truth), 422, "inconsistent-feedback", "correct")
    problem_of(await api.judge(prediction_id, true_label="purple"), 422, "unknown-label", "true_label")
    assert body_of(await api.judge(prediction_id, true_label=truth), 200)["correct"] is False
    assert body_of(await api.judge(prediction_id, correct=False, true_label=truth), 200)["status"] == "duplicate"
    problem_of(await api.judge(prediction_id, true_label=drawn), 409, "feedback-conflict", "correct")
    (line,) = await api.rounds()
    assert (line["label"], line["true_label"], line["correct"]) == (drawn, truth, False)


async def test_full_information_needs_the_true_label(api: Api) -> None:
    """A learner of full information is not content with a wrong answer's bit; a right one tells its label."""
    await api.create(learner=GAPTRON | {"information": "full"})
    first, second = [body_of(await api.predict(), 200) for _ in range(2)]
    problem_of(await api.judge(first["prediction_id"], correct=False), 422, "label-needed", "true_label")
    assert body_of(await api.judge(first["prediction_id"], correct=True), 200)["status"] == "recorded"
    assert body_of(await api.judge(second["prediction_id"], true_label=LABELS[0]), 200)["status"] == "recorded"
    assert [line["true_label"] for line in await api.rounds()] == [first["label"], LABELS[0]]


async def test_a_prediction_sees_the_feedback_before_it(api: Api) -> None:
    """`rounds_seen` counts every round that was acknowledged before the call."""
    await api.create(learner=SOBA_DIAGONAL)
    for rounds in range(5):
        answer = body_of(await api.predict(), 200)
        assert answer["rounds_seen"] == rounds
        await api.judge(answer["prediction_id"], correct=True)


# --- the log


async def test_the_log_is_read_a_page_at_a_time(api: Api) -> None:
    """`after` and `limit` walk through the log without a gap; behind its end there is nothing."""
    await api.create()
    answers = [body_of(await api.predict(x), 200) for x in some_contexts(1, 7)]
    for answer in reversed(answers):
        await api.judge(answer["prediction_id"], correct=True)
    lines = [line for after in (0, 3, 6, 7) for line in await api.rounds(after=after, limit=3)]
    assert [line["round"] for line in lines] == list(range(1, 8))
    assert [line["prediction_id"] for line in lines] == [a["prediction_id"] for a in reversed(answers)]


async def test_a_line_of_the_log_is_what_was_answered(api: Api) -> None:
    """A round carries the answer's label, propensity and rounds seen, the context the learner saw, and the moments."""
    await api.create()
    answer = body_of(await api.predict([3.0, 4.0, 0.0]), 200)
    await api.judge(answer["prediction_id"], correct=False)
    (line,) = await api.rounds()
    assert line.pop("context") == pytest.approx([0.6, 0.8, 0.0])
    assert [datetime.fromisoformat(line.pop(f"{at}_at")).timestamp() for at in ("predicted", "feedback")] == [START] * 2
    same = {key: answer[key] for key in ("prediction_id", "label", "propensity", "rounds_seen")}
    assert line == {"round": 1, "correct": False, "true_label": None, "labels": None, "true_labels": None} | same


# --- the rest


async def test_learners_are_described(api: Api) -> None:
    """Every learner is listed with a summary, a guarantee, and the JSON Schema of what may be chosen."""
    learners = body_of(await api.get("/learners"), 200)["learners"]
    assert [learner["algorithm"] for learner in learners] == sorted(ALL_LEARNERS)
    kinds = {learner["algorithm"].removeprefix("fenchel-young-"): learner["answer"] for learner in learners}
    assert [kinds[kind] for kind in ("ordinal", "multilabel", "ranking")] == ["level", "label-set", "ranking"]
    assert kinds["soba"] == "label"
    for learner in learners:
        assert learner["summary"]
        assert learner["guarantee"]
        assert "problem" not in learner["hyperparameters"]["properties"]
        assert all("default" in each for each in learner["hyperparameters"]["properties"].values())


async def test_health_is_told(api: Api) -> None:
    """`/livez` says alive; `/readyz` says what the store is and what it promises."""
    assert body_of(await api.get("/livez"), 200) == {"status": "alive"}
    ready = body_of(await api.get("/readyz"), 200)
    assert ready["status"] == "ready"
    assert ready["store"].startswith(("Valkey", "Redis"))
    assert "survives a crash" in ready["durability"]
    assert [warning for warning in ready["warnings"] if "wager repair" not in warning] == []  # of other tests


async def test_unknown_paths_and_methods_are_problems_too(api: Api) -> None:
    """404 and 405 come as problems; the latter says what is allowed."""
    problem_of(await api.get("/nothing"), 404, "no-such-path")
    response = await api.get("/predict")
    problem_of(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "POST"
