"""The HTTP contract of `GET /models/{name}/evaluation`."""

import threading
from typing import Any

import numpy as np
import pytest

from learners.evaluation.off_policy.terms import sums_of
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.sample_models import LABELS, RANKING, UNIFORM


async def _fill(api: Api, n: int, good: str = "green", **fields: Any) -> None:
    """Predict and judge n rounds: one label is right in nine of ten of them, the others in three of ten."""
    rng = np.random.default_rng(5)
    items = [{"context": X, **fields} for _ in range(n)]
    made = body_of(await api.post("/predict/batch", model=api.name, items=items), 200)["predictions"]
    chance = {label: 0.9 if label == good else 0.3 for label in LABELS}
    judged = [{"prediction_id": p["prediction_id"], "correct": bool(rng.random() < chance[p["label"]])} for p in made]
    body_of(await api.post("/feedback/batch", feedback=judged), 200)


async def _values(api: Api, **query: Any) -> dict[str, dict[str, Any]]:
    body = body_of(await api.get(f"/models/{api.name}/evaluation", **query), 200)
    return {each["policy"]: each for each in body["policies"]}


def _ips(value: dict[str, Any]) -> float:
    (found,) = [each for each in value["estimates"] if each["estimator"] == "ips"]
    assert found["low"] <= found["value"] <= found["high"]
    return float(found["value"])


async def test_the_served_policy_has_the_mean_reward_of_its_log(api: Api) -> None:
    """Its weights are 1, and the best label is found and valued near its chance."""
    await api.create(learner=UNIFORM)
    await _fill(api, 400)
    lines, values = await api.rounds(), await _values(api)
    assert _ips(values["served"]) == pytest.approx(np.mean([line["reward"] for line in lines]))
    assert (values["served"]["mean_weight"], values["served"]["warnings"]) == (1.0, [])
    assert _ips(values["uniform"]) == pytest.approx(_ips(values["served"]))  # the learner is uniform
    best = values["best_constant"]
    assert best["label"] == "green"
    assert best["low"] <= 0.9 <= best["high"]
    assert 150 < best["rounds"] < 250  # the other half chose the label


async def test_only_the_latest_rounds_count(api: Api) -> None:
    """`rounds` limits them, and the answer names them."""
    await api.create(learner=UNIFORM)
    await _fill(api, 50)
    body = body_of(await api.get(f"/models/{api.name}/evaluation", rounds=20), 200)
    assert (body["rounds"], body["first_round"], body["last_round"]) == (20, 31, 50)
    problem_of(await api.get(f"/models/{api.name}/evaluation", rounds=0), 422, "out-of-range", "rounds")
    problem_of(await api.get(f"/models/{api.name}/evaluation", rounds=100_001), 422, "out-of-range", "rounds")


async def test_a_label_counts_only_where_it_was_eligible(api: Api) -> None:
    """Where the best label is not eligible, the constant policy is uniform over the others."""
    await api.create(learner=UNIFORM)
    await _fill(api, 200)
    await _fill(api, 100, good="none", eligible=["red", "blue"])
    values = await _values(api)
    assert values["best_constant"]["label"] == "green"
    assert abs(values["best_constant"]["mean_weight"] - 1.0) < 0.3
    assert values["uniform"]["mean_weight"] == pytest.approx(1.0)


async def test_a_model_without_rounds_has_no_values(api: Api) -> None:
    """The answer says so, without estimates."""
    await api.create()
    body = body_of(await api.get(f"/models/{api.name}/evaluation"), 200)
    assert (body["rounds"], body["first_round"]) == (0, None)
    assert all(each["estimates"] == [] and each["warnings"] for each in body["policies"])


async def test_the_holdout_is_a_policy_of_its_own(api: Api) -> None:
    """The rounds of the holdout and of the learner are compared, and none is in both."""
    await api.create(learner=UNIFORM, holdout={"fraction": 0.5, "policy": "uniform"})
    await _fill(api, 100)
    values = await _values(api)
    assert values["served"]["rounds"] + values["holdout"]["rounds"] == values["uniform"]["rounds"] == 100


async def test_estimates_never_run_in_the_event_loop(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even of a few rounds: the first call in a process may compile for seconds."""
    await api.create(learner=UNIFORM)
    await _fill(api, 3)
    threads = list[threading.Thread]()

    def watched(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return sums_of(*given)

    monkeypatch.setattr("service.analytics.evaluation.sums_of", watched)
    await _values(api)
    assert threads
    assert threading.current_thread() not in threads


async def test_rankings_are_refused(api: Api) -> None:
    """They have no probability of a label."""
    await api.create(learner=RANKING)
    problem_of(await api.get(f"/models/{api.name}/evaluation"), 422, "not-evaluable", "name")


async def test_a_missing_model_is_not_found(api: Api) -> None:
    """As everywhere."""
    problem_of(await api.get("/models/nothing/evaluation"), 404, "model-not-found", "name")
