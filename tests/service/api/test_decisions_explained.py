"""A stored prediction explained: `GET /predictions/{prediction_id}`, over HTTP."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from service import costs
from service.models.changes import StoredLabels
from service.models.reading import stored_model
from service.replicas import past_fold
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Damage
from tests.servers import raw
from tests.service.actions.catalogue import SHOES
from tests.service.actions.catalogue import definition as with_actions
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.damaging import rewrite
from tests.service.replicas.altering import alter, lose_change
from tests.service.rounds.clicks import close_expired
from tests.service.rounds.sessions import session_cache
from tests.service.sample_models import GAPTRON, LABEL_SET, LABELS, RANKING, SOBA_DIAGONAL, UNIFORM, whole_log
from tests.service.workers import Clock, worker

FASTCB = {"algorithm": "fastcb"}
ABSTAINING = {"algorithm": "adahedge", "abstention_cost": 0.4}
WINDOW = 60.0
SILENCE = {"on_expiry": "incorrect", "window_seconds": WINDOW}
OF_REQUEST = ("context", "actions", "action_count", "eligible", "predicted_at", "holdout", "draw")


async def explained(api: Api, prediction: dict[str, Any] | str) -> dict[str, Any]:
    id_ = prediction if isinstance(prediction, str) else prediction["prediction_id"]
    return body_of(await api.get(f"/predictions/{id_}"), 200)


async def asked(api: Api, **fields: Any) -> dict[str, Any]:
    return body_of(await api.predict(include_distribution=True, **fields), 200)


def assert_explains(found: dict[str, Any], answer: dict[str, Any]) -> None:
    for field in {"prediction_id", "label", "propensity", "rounds_seen", "expires_at", "rules_left_out"} & set(answer):
        assert found[field] == answer[field], field
    assert found["reason"] is None
    assert found["distribution"] == pytest.approx(answer["distribution"], rel=0.0, abs=1e-12)
    assert_drawn(found)


def assert_drawn(found: dict[str, Any]) -> None:
    p, label = found["distribution"], found["label"]
    before = sum(list(p.values())[: list(p).index(label)])
    assert p[label] == pytest.approx(found["propensity"], abs=1e-12)
    assert before - 1e-12 <= found["u"] < before + p[label] + 1e-12
    assert found["draw"] == pytest.approx((found["u"] - before) / p[label], abs=1e-9)


def assert_unknown(found: dict[str, Any], reason: str) -> None:
    assert (found["distribution"], found["scores"], found["u"], found["rules_left_out"]) == (None,) * 4
    assert reason in found["reason"]
    assert found["reason"].endswith(".")


async def key_of(store: RedisStore, name: str) -> ModelKey:
    stored = await store.get_model(name)
    assert stored is not None
    return stored.key


async def test_an_open_prediction_has_every_field(api: Api) -> None:
    await api.create(learner=FASTCB)
    await api.learn(20)
    answer = await asked(api)
    found = await explained(api, answer)
    assert_explains(found, answer)
    scores = body_of(await api.post(f"/models/{api.name}/explain", context=X), 200)["scores"]
    assert found.pop("scores") == pytest.approx(scores)
    assert (found.pop("distribution").keys(), found.pop("learner")["algorithm"]) == (set(LABELS), "fastcb")
    assert 0.0 <= found.pop("draw") < 1.0
    assert 0.0 <= found.pop("u") < 1.0
    assert found == {
        "prediction_id": answer["prediction_id"],
        "model": api.name,
        "status": "open",
        "label": answer["label"],
        "labels": None,
        "propensity": answer["propensity"],
        "holdout": False,
        "predicted_at": "2027-01-15T08:00:00Z",
        "expires_at": "2027-01-16T08:00:00Z",
        "rounds_seen": 20,
        "changes_seen": 0,
        "context": X,
        "actions": None,
        "action_count": None,
        "eligible": None,
        "mode": "online",
        "rules": None,
        "rules_left_out": None,
        "cost": None,
        "cost_weight": None,
        "costs": None,
        "budget": None,
        "holdout_policy": None,
        "reason": None,
        "outcome": None,
    }


async def test_a_recorded_prediction_has_its_outcome_and_its_round(api: Api) -> None:
    await api.create(learner=FASTCB)
    await api.learn(3)
    first, second = await asked(api), await asked(api)
    before = await explained(api, first)
    body_of(await api.judge(first["prediction_id"], true_label=LABELS[1]), 200)
    body_of(await api.judge(second["prediction_id"], reward=0.25), 200)
    found = await explained(api, first)
    right = first["label"] == LABELS[1]
    assert found.pop("outcome") == {
        "outcome": "feedback",
        "correct": right,
        "reward": float(right),
        "abstained": False,
        "true_label": LABELS[1],
        "true_labels": None,
        "feedback_at": "2027-01-15T08:00:00Z",
        "round": 4,
    }
    assert found == {name: value for name, value in before.items() if name != "outcome"} | {"status": "recorded"}
    outcome = (await explained(api, second))["outcome"]
    assert (outcome["reward"], outcome["correct"], outcome["true_label"], outcome["round"]) == (0.25, None, None, 5)


async def test_an_abstention_is_neither_right_nor_wrong(api: Api) -> None:
    labels = ["no", "yes", "abstain"]
    body_of(await api.create(labels=labels, learner=ABSTAINING), 201)
    answers = await api.batch(30)
    assert {"abstain"} < {each["label"] for each in answers}
    items = [{"prediction_id": each["prediction_id"], "true_label": "yes"} for each in answers]
    body_of(await api.post("/feedback/batch", feedback=items), 200)
    for answer in answers:
        outcome = (await explained(api, answer))["outcome"]
        assert outcome["abstained"] == (answer["label"] == "abstain")
        assert outcome["correct"] == (None if outcome["abstained"] else answer["label"] == "yes")
        assert outcome["true_label"] == "yes"


async def test_feedback_waits_and_silence_expires_into_a_round(store_url: str, store: RedisStore, name: str) -> None:
    clock = Clock()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        await api.create(learner=FASTCB, **SILENCE)
        judged, silent, hidden = await asked(api), await asked(api), await asked(api, activated=False)
        body_of(await api.judge(judged["prediction_id"], correct=True), 200)
        found = await explained(api, judged)
        assert (found["status"], found["outcome"]["round"], found["outcome"]["correct"]) == ("waiting", None, True)
        assert [(await explained(api, each))["status"] for each in (silent, hidden)] == ["open", "inactive"]
        clock.now += WINDOW + 1.0
        assert [(await explained(api, each))["status"] for each in (silent, hidden)] == ["expired", "expired"]
        await close_expired(store, clock)
        found = await explained(api, silent)
        assert (found["status"], found["outcome"]["outcome"], found["outcome"]["reward"]) == (
            "recorded",
            "expired",
            0.0,
        )
        assert_explains(found, silent)
        found = await explained(api, judged)
        assert (found["status"], found["outcome"]["outcome"]) == ("recorded", "feedback")
        assert sorted([found["outcome"]["round"], (await explained(api, silent))["outcome"]["round"]]) == [1, 2]
        found = await explained(api, hidden)
        assert (found["status"], found["outcome"], found["label"]) == ("expired", None, hidden["label"])
        assert [found[field] for field in OF_REQUEST] == [None] * len(OF_REQUEST)
        assert_unknown(found, "dropped without a round")


async def test_a_dropped_prediction_keeps_its_context_until_it_is_forgotten(store_url: str, name: str) -> None:
    clock = Clock()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        await api.create(learner=FASTCB, window_seconds=WINDOW)
        answer = await asked(api)
        clock.now += WINDOW + 1.0
        found = await explained(api, answer)
        assert (found["status"], found["context"], found["outcome"]) == ("expired", X, None)
        assert_explains(found, answer)
        body_of(await api.change("*", late_feedback="accept"), 200)
        assert (await explained(api, answer))["status"] == "open"


@pytest.mark.parametrize("policy", ["uniform", "baseline", {"label": "green"}], ids=str)
async def test_the_holdout_explains_itself(api: Api, policy: Any) -> None:
    await api.create(learner=FASTCB, holdout={"fraction": 0.5, "policy": policy}, rules={"floor": {"red": 0.3}})
    if policy != "baseline":
        await api.learn(10)
    made = await api.batch(20, include_distribution=True, baseline="blue", eligible=["blue", "green"])
    assert {each["holdout"] for each in made} == {True, False}
    for answer in made:
        found = await explained(api, answer)
        assert_explains(found, answer)
        assert found["holdout"] == answer["holdout"]
        assert found["holdout_policy"] == (policy if answer["holdout"] else None)
        assert (found["scores"] is None) == answer["holdout"]
    left: list[dict[str, Any]] = [{"eligible": ["red", "blue"]}, {"top": 3}]
    for fields in left:
        for _ in range(6):
            answer = body_of(await api.predict(baseline="blue", **fields), 200)
            for each in answer["slots"] or [answer]:
                assert_drawn(await explained(api, each))


async def test_rules_are_those_of_the_time(api: Api) -> None:
    rules = {"floor": {"red": 0.3}, "cap": {"green": 0.2}}
    await api.create(learner=FASTCB, rules=rules)
    await api.learn(20)
    answer, narrow = await asked(api), await asked(api, eligible=["green", "blue"])
    body_of(await api.change("*", rules=None, mode="frozen"), 200)
    body_of(await api.post(f"/models/{api.name}/snapshots", id="kept"), 201)  # of the same round, but too new
    later = await asked(api)
    for each in (answer, narrow):
        found = await explained(api, each)
        assert_explains(found, each)
        assert found["rules"] == rules | {"floor_each": 0.0, "groups": {}}
        assert (found["mode"], found["changes_seen"]) == ("online", 0)
    assert found["rules_left_out"] == ["floor.red"]
    assert found["eligible"] == ["green", "blue"]
    assert list(found["distribution"]) == ["green", "blue"]
    found = await explained(api, later)
    assert_explains(found, later)
    assert (found["mode"], found["rules"], found["changes_seen"]) == ("frozen", None, 1)


async def test_each_slot_is_explained_by_what_was_left(api: Api) -> None:
    await api.create(learner=FASTCB)
    await api.learn(20)
    answer = body_of(await api.predict(top=3, prediction_id="page/1"), 200)
    labels = [slot["label"] for slot in answer["slots"]]
    for n, slot in enumerate(answer["slots"]):
        found = await explained(api, slot)
        assert_drawn(found)
        assert set(found["distribution"]) == set(LABELS) - set(labels[:n])
        assert (found["eligible"] is None) == (n == 0)
    problem_of(await api.get(f"/predictions/{api.name}:page/1"), 404, "prediction-not-found", "prediction_id")
    body_of(await api.judge(answer["slots"][1]["prediction_id"], correct=True), 200)
    assert [(await explained(api, slot))["status"] for slot in answer["slots"]] == ["open", "recorded", "open"]
    assert_drawn(await explained(api, answer["slots"][1]))


async def test_the_predictions_of_a_batch_are_explained_one_by_one(api: Api) -> None:
    await api.create(learner=FASTCB)
    await api.learn(10)
    contexts = [[0.1 * n, 0.3, -0.2] for n in range(8)]
    made = body_of(await api.post("/predict/batch", model=api.name, contexts=contexts, include_distribution=True), 200)[
        "predictions"
    ]
    assert all(each["prediction_id"].count(":") == 2 for each in made)
    items = [{"prediction_id": each["prediction_id"], "correct": True} for each in made[::-1]]
    for some in ([], items[:3], items[3:]):
        if some:
            body_of(await api.post("/feedback/batch", feedback=some), 200)
        for answer, context in zip(made, contexts, strict=True):
            found = await explained(api, answer)
            assert_explains(found, answer)
            assert found["context"] == context
    assert [(await explained(api, each))["outcome"]["round"] for each in made] == list(range(18, 10, -1))
    block, token = made[0]["prediction_id"].rsplit(":", 1)
    wrong = f"{block}:{int(token) + 2**20}"
    problem_of(await api.get(f"/predictions/{wrong}"), 404, "prediction-not-found", "prediction_id")


async def trim(api: Api, store: RedisStore, first: int) -> None:
    """Write a snapshot, and drop the rounds before `first`, as the service does a hundred at a time."""
    await session_cache(store).write_snapshot(api.name)
    await store.command("XTRIM", keys.log(*await key_of(store, api.name)), "MINID", "=", f"{first}-0")


async def test_after_the_log_has_dropped_the_round_only_the_outcome_is_left(api: Api, store: RedisStore) -> None:
    await api.create(learner=FASTCB)
    answer = await asked(api)
    body_of(await api.judge(answer["prediction_id"], correct=True), 200)
    await api.learn(2)
    await trim(api, store, 2)
    found = await explained(api, answer)
    assert [found[field] for field in OF_REQUEST] == [None] * len(OF_REQUEST)
    assert_unknown(found, "no longer keeps round 1")
    assert (found["label"], found["propensity"]) == (answer["label"], answer["propensity"])
    assert (found["outcome"]["correct"], found["outcome"]["true_label"]) == (True, answer["label"])


RULES = {"floor": {"own": 0.6, "no-such": 0.1}}


@pytest.mark.parametrize("log_actions", ["chosen", "all"])
async def test_actions(api: Api, store: RedisStore, log_actions: str) -> None:
    definition = with_actions(api.name, rules=RULES)
    definition["actions"] = definition["actions"] | {"log_actions": log_actions}
    body_of(await api.post("/models", **definition), 201)
    actions = [each | {"tag": tag} for each, tag in zip(SHOES, ("own", "ad", "own"), strict=True)]
    request = {"model": api.name, "context": {"hour": 3.0}, "actions": actions, "include_distribution": True}
    answer = body_of(await api.post("/predict", **request), 200)
    for _ in range(2):
        found = await explained(api, answer)
        assert (found["label"], found["context"], found["action_count"]) == (answer["label"], {"hour": 3.0}, 3)
        if log_actions == "all":
            assert_explains(found, answer)
            assert found["rules_left_out"] == ["floor.no-such"]
            assert [each["id"] for each in found["actions"]] == [each["id"] for each in SHOES]
            assert {each["tag"] for each in found["actions"]} == {"own", "ad"}
        else:
            assert_unknown(found, "log_actions")
            assert [each["id"] for each in found["actions"]] == [answer["label"]]
        body_of(await api.judge(answer["prediction_id"], reward=0.5), 200)
    assert (found["status"], found["outcome"]["reward"], found["outcome"]["true_label"]) == ("recorded", 0.5, None)
    last = body_of(await api.post("/predict", **request), 200)
    body_of(await api.judge(last["prediction_id"], correct=True), 200)
    await trim(api, store, 3)
    found = await explained(api, answer)
    assert (found["label"], found["actions"], found["outcome"]["reward"]) == (None, None, 0.5)
    assert_unknown(found, "no longer keeps round 1")


async def test_labels_are_those_of_the_time(api: Api) -> None:
    await api.create(learner=FASTCB)
    await api.learn(10)
    first, some = await asked(api), await asked(api, eligible=["red", "none"])
    body_of(await api.change("*", labels={"add": ["pink"], "retire": ["red"]}), 200)
    await api.learn(5)
    second = await asked(api)
    for _ in range(2):
        for answer, labels in ((first, None), (some, ["red", "none"]), (second, ["green", "blue", "none", "pink"])):
            found = await explained(api, answer)
            assert_explains(found, answer)
            assert found["eligible"] == labels
        assert "red" not in found["scores"]
        assert (found["changes_seen"], found["rounds_seen"]) == (1, 15)
        for answer in (first, some, second):
            body_of(await api.judge(answer["prediction_id"], correct=False), 200)


async def change_state(api: Api, verb: str, **body: Any) -> None:
    path = f"/models/{api.name}/{verb}"
    body_of(await api.request("POST", path, json=body, headers={"If-Match": "*"}), 200)


async def test_after_a_reset_a_rollback_and_a_promotion(api: Api) -> None:
    await api.create(learner=FASTCB)
    made = list[dict[str, Any]]()
    await api.learn(8)
    body_of(await api.post(f"/models/{api.name}/snapshots", id="kept"), 201)
    made.append(await asked(api))
    await api.learn(4)
    body_of(await api.request("PUT", f"/models/{api.name}/shadows/rival", json={"learner": GAPTRON}), 200)
    for verb, body in (("reset", {}), ("rollback", {"snapshot": "kept"}), ("promote", {"shadow": "rival"})):
        await change_state(api, verb, **body)
        made.append(await asked(api))
        await api.learn(4)
        made.append(await asked(api))
    for _ in range(2):
        for answer in made:
            assert_explains(await explained(api, answer), answer)
        learners = [(await explained(api, answer))["learner"]["algorithm"] for answer in made]
        assert learners == ["fastcb"] * 5 + ["gaptron"] * 2
        for answer in made:
            body_of(await api.judge(answer["prediction_id"], correct=True), 200)


async def test_a_clone_explains_what_it_decided_itself(api: Api) -> None:
    await api.create(learner=FASTCB)
    await api.learn(8)
    body_of(await api.post(f"/models/{api.name}/clone", name=f"{api.name}-clone"), 201)
    clone = api.named(f"{api.name}-clone")
    first = await asked(clone)
    await clone.learn(5)
    for answer in (first, await asked(clone)):
        assert_explains(await explained(clone, answer), answer)


@pytest.mark.parametrize("start", ["round 0", "kept", "latest"])
@pytest.mark.parametrize("learner", [FASTCB, GAPTRON, SOBA_DIAGONAL], ids=lambda choice: str(choice["algorithm"]))
async def test_the_distribution_is_the_one_that_was_answered(
    store_url: str, store: RedisStore, name: str, learner: dict[str, Any], start: str
) -> None:
    """From each start of the fold, by a worker that has seen nothing, with feedback before and after."""
    async with worker(store_url) as client:
        api = Api(client, "", name)
        await api.create(learner=learner)
        await api.learn(30)
        early = await asked(api)
        if start == "kept":
            body_of(await api.post(f"/models/{name}/snapshots", id="kept"), 201)
        if start == "latest":
            await trim(api, store, 30)
        await api.learn(7)
        answers = [early, await asked(api)]
        body_of(await api.judge(early["prediction_id"], correct=True), 200)
        await api.learn(7)
        if start == "kept":  # the latest snapshot is too new
            await trim(api, store, 31)
    async with worker(store_url) as client:
        api = Api(client, "", name)
        for _ in range(2):
            for answer in answers:
                assert_explains(await explained(api, answer), answer)
            body_of(await api.judge(answers[1]["prediction_id"], correct=False), 200)
        assert (await explained(api, answers[1]))["status"] == "recorded"


async def test_a_state_that_is_too_far_away_is_not_restored(
    api: Api, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.create(learner=FASTCB)
    for n, id_ in ((4, "early"), (6, "kept")):
        await api.learn(n)
        body_of(await api.post(f"/models/{api.name}/snapshots", id=id_), 201)
    await api.learn(5)
    near = await asked(api)
    await api.learn(1)
    far = await asked(api)
    await session_cache(store).write_snapshot(api.name)
    monkeypatch.setattr(past_fold, "MOST_ROUNDS", 5)
    assert_explains(await explained(api, near), near)
    assert_explains(await explained(api, far), far)  # from the latest snapshot
    assert (await api.delete(f"/models/{api.name}/snapshots/kept")).status_code == 204
    found = await explained(api, near)
    assert_unknown(found, "no stored snapshot is at most 5 rounds older than the prediction")
    assert (found["context"], found["status"]) == (X, "open")


async def test_a_state_whose_rounds_are_gone_is_not_restored(api: Api, store: RedisStore) -> None:
    await api.create(learner=FASTCB)
    await api.learn(5)
    answer = await asked(api)
    assert_explains(await explained(api, answer), answer)
    await api.learn(5)
    await trim(api, store, 2)
    assert_unknown(await explained(api, answer), "the log no longer has round 1")


async def damage_round_5(api: Api, store: RedisStore) -> ModelKey:
    stored = await store.get_model(api.name)
    assert stored is not None
    entries = await whole_log(store, stored.key)
    damaged = entries[4]._replace(payload=entries[4].payload[:-1] + b"\xff")
    await rewrite(store, stored_model(stored), [*entries[:4], damaged, *entries[5:]])
    return stored.key


async def test_a_distribution_that_does_not_agree_is_not_shown(api: Api, store: RedisStore) -> None:
    """A round that was damaged after the prediction is left out, so another state decides."""
    await api.create(learner=FASTCB)
    await api.learn(10)
    answer = await asked(api)
    key = await damage_round_5(api, store)
    await store.record_damage(key, [Damage(5, 5, 5, "damaged")])
    found = await explained(api, answer)
    assert_unknown(found, "differs from the stored propensity")
    assert (found["context"], found["propensity"]) == (X, answer["propensity"])


async def test_a_read_records_no_damage(api: Api, store: RedisStore) -> None:
    await api.create(learner=FASTCB)
    await api.learn(10)
    answer = await asked(api)
    key = await damage_round_5(api, store)
    assert_unknown(await explained(api, answer), "rounds 5 to 5 of the log are damaged")
    assert (await store.read_damage(key)).found == []
    assert (await asked(api))["distribution"] == pytest.approx(answer["distribution"])


async def test_a_damaged_snapshot_gives_way_to_an_older_state(api: Api, store: RedisStore, store_url: str) -> None:
    await api.create(learner=FASTCB)
    for n in (4, 6):
        await api.learn(n)
        body_of(await api.post(f"/models/{api.name}/snapshots", id=f"after-{n}"), 201)
    answer = await asked(api)
    key = await key_of(store, api.name)
    with raw(store_url) as client:
        client.hset(keys.kept_snapshot(*key, "after-6"), "check", "nothing")
    assert_explains(await explained(api, answer), answer)


async def test_a_fold_that_would_take_too_long_is_not_made(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.create(learner=FASTCB)
    await api.learn(5)
    answer = await asked(api)
    monkeypatch.setattr(costs, "EXPLAINED_FOLD", 100)
    assert_unknown(await explained(api, answer), "folding 5 rounds again would take too long")


@pytest.mark.parametrize("learner", [LABEL_SET, RANKING], ids=lambda choice: str(choice["algorithm"]))
async def test_several_labels(api: Api, learner: dict[str, Any]) -> None:
    await api.create(learner=learner)
    answer = body_of(await api.predict(), 200)
    assert_unknown(await explained(api, answer), "answers several labels")
    body_of(await api.judge(answer["prediction_id"], true_labels=answer["labels"]), 200)
    found = await explained(api, answer)
    assert (found["labels"], found["label"]) == (answer["labels"], None)
    assert (found["outcome"]["true_labels"], found["outcome"]["correct"]) == (answer["labels"], True)


async def test_a_policy_of_the_request_is_not_stored(api: Api) -> None:
    await api.create(learner=FASTCB, mode="logging")
    answer = body_of(await api.predict(policy={"red": 0.4, "blue": 0.6}), 200)
    found = await explained(api, answer)
    assert_unknown(found, "not stored")
    assert (found["mode"], found["propensity"]) == ("logging", answer["propensity"])


@pytest.mark.parametrize("id_", ["nope", "a:b:c:d", ":x", "a:", "a:b:01", "a b:c", "a:b%20c"])
async def test_malformed_ids(api: Api, id_: str) -> None:
    problem = body_of(await api.get(f"/predictions/{id_}"), 422)
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:invalid-name", "prediction_id")


async def test_unknown_ids_are_refused_as_feedback_refuses_them(api: Api) -> None:
    await api.create(learner=UNIFORM)
    for id_, slug in ((f"{api.name}:none", "prediction-not-found"), ("no-such-model:x", "model-not-found")):
        ours = problem_of(await api.get(f"/predictions/{id_}"), 404, slug, "prediction_id")
        theirs = problem_of(await api.judge(id_, correct=True), 404, slug, "prediction_id")
        assert ours | {"request_id": ""} == theirs | {"request_id": ""}


async def test_ids_may_contain_slashes(api: Api) -> None:
    await api.create(learner=UNIFORM)
    for block in ("a/b", "a/../b", "x@y=+z"):
        answer = await asked(api, prediction_id=block)
        quoted = answer["prediction_id"].replace("/", "%2F").replace("+", "%2B")
        assert_explains(body_of(await api.get(f"/predictions/{quoted}"), 200), answer)


async def test_a_lost_change_is_a_conflict(api: Api, store: RedisStore) -> None:
    await api.create(learner=UNIFORM)
    stored = await store.get_model(api.name)
    assert stored is not None
    await alter(store, stored_model(stored), 0, labels=StoredLabels(add=("pink",)))
    answer = await asked(api)
    stored = await store.get_model(api.name)
    assert stored is not None
    await lose_change(store, stored_model(stored))
    problem_of(await api.get(f"/predictions/{answer['prediction_id']}"), 409, "history-lost", "prediction_id")


async def test_damaged_and_newer_records(api: Api, store: RedisStore) -> None:
    await api.create(learner=UNIFORM)
    answer = await asked(api)
    block = keys.block(*await key_of(store, api.name), answer["prediction_id"].partition(":")[2])
    record = await store.command("GET", block)
    path = f"/predictions/{answer['prediction_id']}"
    for place, (status, slug) in {
        0: (503, "newer-version"),
        30: (500, "store-corrupt"),
        -3: (500, "store-corrupt"),
    }.items():
        damaged = bytearray(record)
        damaged[place] = 2 if place == 0 else damaged[place] ^ 255
        await store.command("SET", block, bytes(damaged))
        problem_of(await api.get(path), status, slug, "prediction_id")


_PAGE = Path(__file__).parents[3] / "docs/guides/decisions-explained.md"


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return round(value, 3) if isinstance(value, float) else value


async def test_the_example_of_the_page_works(store_url: str) -> None:
    blocks = [json.loads(each) for each in re.findall(r"```json\n(.*?)\n```", _PAGE.read_text(), re.DOTALL)]
    definition, request, feedback, answer = blocks
    async with worker(store_url, Clock(), seed=1) as client:
        api = Api(client, "", definition["name"])
        body_of(await api.post("/models", **definition), 201)
        for n in range(60):
            device, right = ("phone", "bundle") if n % 2 else ("desktop", "new")
            made = body_of(await api.post("/predict", model=api.name, context={"device": device}), 200)
            body_of(await api.judge(made["prediction_id"], true_label=right), 200)
        body_of(await api.post("/predict", **request), 200)
        body_of(await api.post("/feedback", **feedback), 200)
        found = await explained(api, feedback["prediction_id"])
        await api.delete(f"/models/{api.name}")
    assert rounded(found) == rounded(answer)
