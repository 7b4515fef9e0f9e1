"""The HTTP contract of the log, the learners, health, and unknown paths; at the root and under /v1."""

from datetime import datetime

from learners.registry import ALL_LEARNERS
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.sample_models import some_contexts
from tests.service.workers import START

# --- the log


async def test_the_log_is_read_a_page_at_a_time(api: Api) -> None:
    """Pages by `after` and `limit` cover the log without gaps; a page after the end is empty."""
    await api.create()
    answers = [body_of(await api.predict(x), 200) for x in some_contexts(1, 7)]
    for answer in reversed(answers):
        await api.judge(answer["prediction_id"], correct=True)
    lines = [line for after in (0, 3, 6, 7) for line in await api.rounds(after=after, limit=3)]
    assert [line["round"] for line in lines] == list(range(1, 8))
    assert [line["prediction_id"] for line in lines] == [a["prediction_id"] for a in reversed(answers)]


async def test_a_line_of_the_log_matches_the_answer(api: Api) -> None:
    """A round has the answer's label, propensity and rounds seen, the context as it was sent, and both times."""
    await api.create()
    answer = body_of(await api.predict([3.0, 4.0, 0.0]), 200)
    await api.judge(answer["prediction_id"], correct=False)
    (line,) = await api.rounds()
    assert line.pop("context") == [3.0, 4.0, 0.0]
    assert [datetime.fromisoformat(line.pop(f"{at}_at")).timestamp() for at in ("predicted", "feedback")] == [START] * 2
    same = {key: answer[key] for key in ("prediction_id", "label", "propensity", "rounds_seen")}
    none = dict.fromkeys(("true_label", "labels", "true_labels", "actions", "action_count", "eligible"))
    outcome = {"outcome": "feedback", "correct": False, "reward": 0.0}
    assert line == {"round": 1, "holdout": False, "changes": 0, "changes_seen": 0} | none | outcome | same


# --- the rest


async def test_learners_are_described(api: Api) -> None:
    """Every learner is listed with a summary, a guarantee, and the JSON Schema of its hyperparameters."""
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


async def test_health_is_reported(api: Api) -> None:
    """`/livez` reports that the worker is alive; `/readyz` reports the store and its durability."""
    assert body_of(await api.get("/livez"), 200) == {"status": "alive"}
    ready = body_of(await api.get("/readyz"), 200)
    assert ready["status"] == "ready"
    assert ready["store"].startswith(("Valkey", "Redis"))
    assert "survives a crash" in ready["durability"]
    assert [warning for warning in ready["warnings"] if "wager repair" not in warning] == []  # damage from other tests


async def test_unknown_paths_and_methods_are_problems(api: Api) -> None:
    """404 and 405 are problems, and 405 lists the allowed methods."""
    problem_of(await api.get("/nothing"), 404, "no-such-path")
    response = await api.get("/predict")
    problem_of(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "POST"
