"""The laws of statistics and evaluations: they agree with the log."""

import json
import threading
from typing import Any

import httpx2
import numpy as np
import pytest

from learners.evaluation.off_policy.terms import sums_of
from service.background.upkeep import StatisticsPublisher
from service.models.reading import stored_model
from service.replicas.replica import Replica
from service.store.redis.redis_store import RedisStore
from service.store.values import PublishedStatistics
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.sample_models import COMPUTE, LABELS, RANKING, UNIFORM, definition, some_contexts
from tests.service.workers import START, Clock, worker

ACTIONS = [{"id": "red", "features": {"size": 1}}, {"id": "blue", "features": {"size": 2}}]


async def taught(client: httpx2.AsyncClient, body: dict[str, Any], n: int = 60, **request: Any) -> list[dict[str, Any]]:
    made = await client.post("/models", json=body)
    assert made.status_code == 201, made.text
    name, rng = body["name"], np.random.default_rng(3)
    contexts: list[Any] = some_contexts(1, n) if "features" in body else [{}] * n
    items = [{"context": context, **request} for context in contexts]
    drawn = (await client.post("/predict/batch", json={"model": name, "items": items})).json()["predictions"]
    given = [{"prediction_id": each["prediction_id"], "correct": bool(rng.random() < 0.4)} for each in drawn]
    assert (await client.post("/feedback/batch", json={"feedback": given[: n - 5]})).status_code == 200
    return [json.loads(line) for line in (await client.get(f"/models/{name}/rounds")).text.splitlines()]


async def publish(store: RedisStore, name: str) -> None:
    stored = await store.get_model(name)
    assert stored is not None
    replica = Replica(stored_model(stored), store, COMPUTE)
    await replica.catch_up()
    await StatisticsPublisher(replica, store, lambda: START).publish_if_due(1)


async def statistics(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    answer = await client.get(f"/models/{name}/statistics")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_every_number_agrees_with_the_log(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    body = {"name": name, "labels": ["a", "b", "c"], "holdout": {"fraction": 0.3, "policy": "uniform"}}
    log = await taught(client, body, 200)
    await publish(store, name)
    found, ours = await statistics(client, name), [line for line in log if not line["holdout"]]
    held = [line["reward"] for line in log if line["holdout"]]
    assert (found["rounds"], found["predictions"], found["open_predictions"]) == (195, 200, 5)
    assert (found["fold_lag"], found["since_round"], found["metric"]) == (0, 1, "accuracy")
    assert found["reward"]["mean"] == pytest.approx(np.mean([line["reward"] for line in ours]))
    assert (found["reward"]["rounds"], found["holdout"]["rounds"]) == (len(ours), len(held))
    assert found["holdout"]["mean"] == pytest.approx(np.mean(held))
    for row in found["labels"]:
        rewards = [line["reward"] for line in ours if line["label"] == row["label"]]
        assert (row["rounds"], row["share"]) == (len(rewards), pytest.approx(len(rewards) / len(ours)))
        assert row["reward"]["mean"] == pytest.approx(np.mean(rewards))
        assert row["value"] == row["reward"]  # without contexts
    assert sum(point["rounds"] for point in found["curve"]["points"]) == len(ours)
    assert found["curve"]["points"][-1]["cumulative"] == pytest.approx(found["reward"]["mean"])
    assert found["exploration"]["mean_propensity"] == pytest.approx(np.mean([line["propensity"] for line in log]))
    assert sum(found["propensities"]["counts"]) == sum(found["delays"]["counts"]) == len(log)


async def test_a_worker_publishes_its_last_rounds_before_it_ends(store_url: str, name: str) -> None:
    clock = Clock()
    async with worker(store_url, clock) as ending:
        await taught(ending, {"name": name, "labels": ["a", "b"]}, 65)  # folded, and published in the background
        body = {"model": name, "context": {}}
        late = [(await ending.post("/predict", json=body)).json()["prediction_id"] for _ in range(3)]
        for each in late:
            await ending.post("/feedback", json={"prediction_id": each, "correct": True})
    async with worker(store_url, clock) as other:
        found = await statistics(other, name)
        assert (found["rounds"], found["fold_lag"], sum(found["delays"]["counts"])) == (63, 0, 63)


async def test_a_model_without_traffic_is_counted_when_it_is_looked_at(
    client: httpx2.AsyncClient, store_url: str, name: str
) -> None:
    await taught(client, {"name": name, "labels": ["a", "b"]})  # by an application whose upkeep does not run
    async with worker(store_url, Clock()) as other:
        assert (await statistics(other, name))["fold_lag"] == 55
        while (found := await statistics(other, name))["fold_lag"]:
            pass
        assert sum(found["delays"]["counts"]) == 55


async def test_an_equal_answer_is_304(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    await taught(client, {"name": name, "labels": ["a", "b"]})
    await publish(store, name)
    for path in (f"/models/{name}/statistics", f"/statistics?cursor={name[:-1]}&limit=1"):
        first = await client.get(path)
        tag = first.headers["etag"]
        assert first.headers["cache-control"] == "no-cache"
        for given in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            again = await client.get(path, headers={"If-None-Match": given})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert (await client.get(path, headers={"If-None-Match": '"other"'})).status_code == 200
    await client.post("/predict", json={"model": name})
    assert (await client.get(f"/models/{name}/statistics", headers={"If-None-Match": tag})).status_code == 200


async def test_weights_and_labels_follow_changes(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    log = await taught(client, definition(name, learner={"algorithm": "fastcb"}))
    patch = {"labels": {"add": ["new"], "retire": ["green"]}}
    changed = await client.patch(f"/models/{name}", json=patch, headers={"If-Match": "*"})
    assert changed.status_code == 200, changed.text
    await publish(store, name)
    found = await statistics(client, name)
    assert [(row["label"], row["retired"]) for row in found["labels"]][1:] == [
        (label, label == "green") for label in changed.json()["labels"][1:]
    ]
    first = found["labels"][0]
    weights = [(1 / line["propensity"], line["reward"]) for line in log if line["label"] == first["label"]]
    assert first["value"]["mean"] == pytest.approx(sum(w * r for w, r in weights) / sum(w for w, _ in weights))
    uniform = sum(line["reward"] / line["propensity"] for line in log) / sum(1 / line["propensity"] for line in log)
    assert found["uniform"]["mean"] == pytest.approx(uniform)


@pytest.mark.parametrize("kind", ["actions", "ranking", "many"])
async def test_labels_that_are_not_counted_are_explained(
    client: httpx2.AsyncClient, store: RedisStore, name: str, kind: str
) -> None:
    if kind == "actions":
        body = {"name": name, "actions": {"features": {"kind": "named"}}}
        await taught(client, body, 20, actions=ACTIONS)
    elif kind == "ranking":
        assert (await client.post("/models", json=definition(name, learner=RANKING))).status_code == 201
    else:
        await taught(client, {"name": name, "labels": [f"l{i}" for i in range(300)], "learner": "uniform"})
    await publish(store, name)
    found = await statistics(client, name)
    assert (found["labels"] is None) == (kind != "many")
    if kind == "many":
        assert (len(found["labels"]), found["other_labels"]["labels"]) == (256, 44)
        assert sum(row["rounds"] for row in found["labels"]) + found["other_labels"]["rounds"] == found["rounds"]
    assert kind == "ranking" or "individually" in found["labels_note"]
    assert found["verdict"]["verdict"] == "exploring"


@pytest.mark.parametrize(("learner", "has_number"), [
    ({"algorithm": "gaptron", "learning_rate": "theorem", "radius": 1.0}, True),
    ({"algorithm": "gaptron", "learning_rate": "theorem", "radius": 1.0, "information": "full"}, True),
    ({"algorithm": "gaptron", "learning_rate": "theorem", "radius": 1.0, "exploration": 0.1}, True),
    ({"algorithm": "gaptron"}, False), ({"algorithm": "uniform"}, False), ({"algorithm": "banditron"}, False),
], ids=str)  # fmt: skip
async def test_the_bound_is_a_number_or_says_why_not(
    client: httpx2.AsyncClient, store: RedisStore, name: str, learner: dict[str, Any], has_number: bool
) -> None:
    body = definition(name, learner=learner)
    if learner.get("information") == "full":
        assert (await client.post("/models", json=body)).status_code == 201
        drawn = (await client.post("/predict", json={"model": name, "context": [0.1, 0.2, 0.3]})).json()
        given = {"prediction_id": drawn["prediction_id"], "true_label": body["labels"][0]}
        assert (await client.post("/feedback", json=given)).status_code == 200
    else:
        await taught(client, body, 20)
    await publish(store, name)
    bound = (await statistics(client, name))["bound"]
    assert (bound["mistakes"] is not None) == has_number
    assert has_number or "number" in bound["note"] or "No theorem" in bound["note"]


async def test_unknown_unread_and_foreign_statistics(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    assert (await client.get(f"/models/{name}/statistics")).status_code == 404
    await client.post("/models", json={"name": name, "labels": ["a", "b"]})
    found = await statistics(client, name)
    assert (found["rounds"], found["reward"]["mean"], found["verdict"]["verdict"]) == (0, None, "exploring")
    stored = await store.get_model(name)
    assert stored is not None
    for i, (content, status) in enumerate([(b"x", 500), (b'{"version":99}', 503)]):
        await store.publish_statistics(stored.key, PublishedStatistics(i + 1, content, 1, 0, 3))
        assert (await client.get(f"/models/{name}/statistics")).status_code == status
        page = (await client.get("/statistics", params={"cursor": name[:-1], "limit": 200})).json()
        (listed,) = [each for each in page["models"] if each["name"] == name]
        assert (listed["verdict"], listed["rounds"]) == (None, 0)


async def _fill(api: Api, n: int, good: str = "green", **fields: Any) -> None:
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


@pytest.mark.parametrize("policy", ["uniform", {"label": "green"}, "baseline"], ids=str)
async def test_every_kind_of_holdout_leaves_the_values_of_policies_right(api: Api, policy: Any) -> None:
    """The served arm can give every answer, so the mean weight is 1, and each estimate hits the truth.

    The baselines and the eligible labels vary: the fixed answer is the better one, or is not eligible and drawn.
    """
    await api.create(learner=UNIFORM, holdout={"fraction": 0.5, "policy": policy})
    await _fill(api, 400, baseline="green")
    await _fill(api, 400, baseline="red", eligible=["red", "blue", "none"])
    values, held = await _values(api), np.mean([line["holdout"] for line in await api.rounds()])
    assert values["uniform"]["mean_weight"] == pytest.approx(1.0)
    assert values["uniform"]["rounds"] == (800 if policy == "uniform" else 800 - round(800 * held))
    assert _ips(values["uniform"]) == pytest.approx((0.9 + 6 * 0.3 + 0.3) / 8, abs=0.06)
    assert values["best_constant"]["label"] == "green"
    assert values["best_constant"]["mean_weight"] == pytest.approx(1.0, abs=0.25)
    estimates = {each["estimator"]: each["value"] for each in values["best_constant"]["estimates"]}
    assert estimates["snips"] == pytest.approx(0.6, abs=0.1)
    notes = body_of(await api.get(f"/models/{api.name}/evaluation"), 200)["notes"]
    assert [note.startswith("Answers of the holdout were certain") for note in notes] == [True] * (policy != "uniform")


async def test_slots_that_intervals_take_for_independent_are_noted(api: Api) -> None:
    await api.create(learner=UNIFORM)
    for top, noted in ((None, False), (1, False), (2, True)):
        for made in await api.batch(3, top):
            for each in made.get("slots") or [made]:
                body_of(await api.judge(each["prediction_id"], correct=True), 200)
        notes = body_of(await api.get(f"/models/{api.name}/evaluation"), 200)["notes"]
        assert any("several slots" in note for note in notes) == noted, top


async def test_only_the_latest_rounds_count(api: Api) -> None:
    await api.create(learner=UNIFORM)
    await _fill(api, 50)
    body = body_of(await api.get(f"/models/{api.name}/evaluation", rounds=20), 200)
    assert (body["rounds"], body["first_round"], body["last_round"]) == (20, 31, 50)
    problem_of(await api.get(f"/models/{api.name}/evaluation", rounds=0), 422, "out-of-range", "rounds")
    problem_of(await api.get(f"/models/{api.name}/evaluation", rounds=100_001), 422, "out-of-range", "rounds")


async def test_only_silence_that_makes_rounds_is_noted(api: Api) -> None:
    await api.create(learner=UNIFORM)
    await _fill(api, 5)
    for policies, notes in (
        ({"learn": "at_window_close"}, 0),
        ({"on_expiry": "incorrect", "window_seconds": 60.0}, 1),
        ({"on_expiry": "drop"}, 0),
    ):
        body_of(await api.change("*", **policies), 200)
        found = body_of(await api.get(f"/models/{api.name}/evaluation"), 200)["notes"]
        assert len(found) == notes, policies


async def test_a_label_counts_only_where_it_was_eligible(api: Api) -> None:
    await api.create(learner=UNIFORM)
    await _fill(api, 200)
    await _fill(api, 100, good="none", eligible=["red", "blue"])
    values = await _values(api)
    assert values["best_constant"]["label"] == "green"
    assert abs(values["best_constant"]["mean_weight"] - 1.0) < 0.3
    assert values["uniform"]["mean_weight"] == pytest.approx(1.0)


async def test_the_holdout_is_a_policy_of_its_own(api: Api) -> None:
    await api.create(learner=UNIFORM, holdout={"fraction": 0.5, "policy": "uniform"})
    await _fill(api, 100)
    values = await _values(api)
    assert values["served"]["rounds"] + values["holdout"]["rounds"] == values["uniform"]["rounds"] == 100


async def test_estimates_never_run_in_the_event_loop(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
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
    await api.create(learner=RANKING)
    problem_of(await api.get(f"/models/{api.name}/evaluation"), 422, "not-evaluable", "name")
