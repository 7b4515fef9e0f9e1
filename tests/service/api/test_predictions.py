"""The HTTP contract of predictions, feedback and rewards, activation, repeated requests and open predictions."""

import json
import re
from datetime import datetime
from typing import Any

import httpx2
import pytest

from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.api.test_webhooks import SECRET, signed
from tests.service.metrics import scrape, settled, value
from tests.service.rounds.clicks import close_expired
from tests.service.sample_models import GAPTRON, LABELS, UNIFORM, some_contexts
from tests.service.workers import START, Clock, worker


async def test_a_prediction_has_label_propensity_and_expiry(api: Api) -> None:
    await api.create(window_seconds=90.0)
    answer = body_of(await api.predict(include_distribution=True), 200)
    assert answer["prediction_id"].startswith(f"{api.name}:")
    assert answer["model"] == api.name
    assert list(answer["distribution"]) == LABELS
    assert answer["distribution"][answer["label"]] == answer["propensity"]
    assert sum(answer["distribution"].values()) == pytest.approx(1.0)
    assert datetime.fromisoformat(answer["expires_at"]).timestamp() == START + 90.0
    assert answer["rounds_seen"] == 0
    assert body_of(await api.predict(), 200)["distribution"] is None


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("qualified", [False, True], ids=["bare", "qualified"])
async def test_a_repeated_request_returns_the_stored_prediction(api: Api, closed: bool, qualified: bool) -> None:
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
    await api.create()
    first = body_of(await api.predict(prediction_id="mine"), 200)
    problem_of(await api.predict([0.6, 0.8, 1e-9], prediction_id="mine"), 409, "prediction-conflict", "prediction_id")
    assert body_of(await api.predict(prediction_id="mine"), 200) == first


async def test_an_id_of_another_model_is_refused(api: Api) -> None:
    await api.create()
    problem_of(await api.predict(prediction_id="other:mine"), 422, "invalid-identifier", "prediction_id")


@pytest.mark.parametrize("correct", [True, False])
async def test_feedback_is_recorded_once_and_then_a_duplicate(api: Api, correct: bool) -> None:
    await api.create()
    prediction_id = body_of(await api.predict(), 200)["prediction_id"]
    first = body_of(await api.judge(prediction_id, correct=correct), 200)
    said = {"correct": correct, "reward": float(correct), "abstained": False}
    assert first == {"prediction_id": prediction_id, "status": "recorded", "round": 1} | said
    assert body_of(await api.judge(prediction_id, correct=correct), 200) == first | {"status": "duplicate"}
    problem_of(await api.judge(prediction_id, correct=not correct), 409, "feedback-conflict", "correct")
    model = await api.model()
    assert (model["rounds_seen"], model["predictions"], model["correct"]) == (1, 1, int(correct))


async def test_feedback_may_have_the_true_label(api: Api) -> None:
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
    await api.create(learner=GAPTRON | {"information": "full"})
    first, second = [body_of(await api.predict(), 200) for _ in range(2)]
    problem_of(await api.judge(first["prediction_id"], correct=False), 422, "label-needed", "true_label")
    assert body_of(await api.judge(first["prediction_id"], correct=True), 200)["status"] == "recorded"
    assert body_of(await api.judge(second["prediction_id"], true_label=LABELS[0]), 200)["status"] == "recorded"
    assert [line["true_label"] for line in await api.rounds()] == [first["label"], LABELS[0]]


POLICY = dict.fromkeys(LABELS[:2], 0.5)
RETIRE = {"labels": {"retire": [LABELS[0]]}}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str, str]] = {
    "a retired eligible label": ({}, {"eligible": LABELS[:2]}, RETIRE, "label-retired", "eligible.0"),
    "a retired baseline": ({}, {"baseline": LABELS[0]}, RETIRE, "label-retired", "baseline"),
    "a policy after logging": ({"mode": "logging"}, {"policy": POLICY}, {"mode": "online"}, "wrong-mode", "policy"),
    "slots of fewer labels": ({}, {"top": len(LABELS)}, RETIRE, "too-few-choices", "top"),
    "no baseline for a new holdout": ({}, {}, {"holdout": {"fraction": 0.5, "policy": "baseline"}},
        "baseline-needed", "baseline"),
}  # fmt: skip
"""For each: the model, the request, the change, and the problem of a new request with its field."""


@pytest.mark.parametrize("case", CHANGES)
async def test_an_answered_request_keeps_its_answer(api: Api, case: str) -> None:
    created, asked, change, slug, field = CHANGES[case]
    body_of(await api.create(**created), 201)
    first = body_of(await api.predict(prediction_id="mine", **asked), 200)
    body_of(await api.patch(f"/models/{api.name}", **change), 200)
    problem_of(await api.predict(prediction_id="new", **asked), 422, slug, field)
    assert body_of(await api.predict(prediction_id="mine", **asked), 200) == first
    items = [{"context": X, "prediction_id": id_} | asked for id_ in ("mine", "new")]
    mine, new = body_of(await api.post("/predict/batch", model=api.name, items=items), 200)["predictions"]
    assert mine == first
    assert (new["status"], new["field"]) == (422, field)


async def test_another_request_under_the_same_id_is_refused(api: Api) -> None:
    body_of(await api.create(), 201)
    body_of(await api.predict(prediction_id="mine", eligible=LABELS[:2]), 200)
    body_of(await api.patch(f"/models/{api.name}", labels={"retire": [LABELS[0]]}), 200)
    answer = await api.predict(prediction_id="mine", eligible=[LABELS[0], LABELS[2]])
    problem_of(answer, 422, "label-retired", "eligible.0")
    problem_of(await api.predict([1.0], prediction_id="mine"), 422, "wrong-context-length", "context")


WINDOW = 60.0
CLICKS = {"learner": UNIFORM, "on_expiry": "incorrect", "window_seconds": WINDOW, "learn": "on_arrival"}


async def test_a_reward_is_recorded_once_and_then_a_duplicate(api: Api) -> None:
    await api.create(learner=UNIFORM)
    own = body_of(await api.predict(), 200)["prediction_id"]
    first = body_of(await api.judge(own, reward=0.25), 200)
    assert first == {
        "prediction_id": own,
        "correct": None,
        "reward": 0.25,
        "abstained": False,
        "status": "recorded",
        "round": 1,
    }
    assert body_of(await api.judge(own, reward=0.25), 200) == first | {"status": "duplicate"}
    problem_of(await api.judge(own, reward=0.5), 409, "feedback-conflict", "reward")
    problem_of(await api.judge(own, correct=True), 409, "feedback-conflict", "correct")
    (line,) = await api.rounds()
    assert (line["outcome"], line["correct"], line["reward"], line["true_label"]) == ("feedback", None, 0.25, None)
    model = await api.model()
    assert (model["correct"], model["total_reward"]) == (0, 0.25)


@pytest.mark.parametrize("reward", [0, 1])
async def test_a_reward_of_0_or_1_is_a_bit(api: Api, reward: int) -> None:
    await api.create(learner=UNIFORM)
    own = body_of(await api.predict(), 200)["prediction_id"]
    assert body_of(await api.judge(own, reward=reward), 200)["correct"] is bool(reward)
    assert body_of(await api.judge(own, correct=bool(reward)), 200)["status"] == "duplicate"
    problem_of(await api.judge(own, reward=0.5), 409, "feedback-conflict", "reward")


async def test_rewards_come_in_batches_and_webhooks(store_url: str, name: str) -> None:
    clock = Clock()
    async with worker(store_url, clock, webhook_secrets=SECRET, metrics_models=name) as client:
        api = Api(client, "", name)
        await api.create(learner=UNIFORM)
        ids = [body_of(await api.predict(), 200)["prediction_id"] for _ in range(3)]
        items: list[dict[str, Any]] = [{"prediction_id": own, "reward": 0.5} for own in ids[:2]]
        batch = body_of(await api.post("/feedback/batch", feedback=[*items, items[0] | {"correct": True}]), 200)
        assert [item.get("reward") for item in batch["results"]] == [0.5, 0.5, None]
        assert batch["results"][2]["type"] == "urn:wager:problem:reward-not-alone"
        body = json.dumps({"prediction_id": ids[2], "reward": 0.75}).encode()
        answer = await client.post("/webhooks/feedback", content=body, headers=signed(body))
        assert body_of(answer, 200)["feedback"]["reward"] == 0.75
        samples = await settled(client, name, 3, clock)
        assert value(samples, "wager_reward_total", model=name) == 1.75
        assert value(samples, "wager_reward_ratio", model=name, policy="served", estimator="mean") == 1.75 / 3


async def test_an_expired_prediction_is_a_round_of_its_own_kind(store_url: str, store: RedisStore, name: str) -> None:
    clock = Clock()
    async with worker(store_url, clock, metrics_models=name) as client:
        api = Api(client, "", name)
        await api.create(**CLICKS | {"on_expiry": {"reward": 0.5}})
        first, second = [body_of(await api.predict(), 200)["prediction_id"] for _ in range(2)]
        assert body_of(await api.judge(second, correct=True), 200)["round"] == 1
        clock.now += WINDOW + 10.0
        await close_expired(store, clock)
        _, line = await api.rounds()
        assert (line["prediction_id"], line["outcome"], line["correct"], line["reward"]) == (
            first,
            "expired",
            None,
            0.5,
        )
        problem_of(await api.judge(first, correct=True), 404, "prediction-expired", "prediction_id")
        assert (await api.model())["total_reward"] == 1.5
        samples = await scrape(client)
        assert value(samples, "wager_feedback_total", model=name, status="recorded") == 1
        assert value(samples, "wager_expired_rounds_total", model=name) == 1


async def test_feedback_waits_until_the_window_closes(store_url: str, store: RedisStore, name: str) -> None:
    clock = Clock()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        await api.create(**CLICKS | {"on_expiry": "drop", "learn": "at_window_close"})
        first, _ = [body_of(await api.predict(), 200)["prediction_id"] for _ in range(2)]
        waits = body_of(await api.judge(first, reward=0.5), 200)
        assert (waits["status"], waits["round"]) == ("recorded", None)
        assert body_of(await api.judge(first, reward=0.5), 200) == waits | {"status": "duplicate"}
        problem_of(await api.judge(first, correct=True), 409, "feedback-conflict", "correct")
        assert (await api.model())["rounds_seen"] == 0
        clock.now += WINDOW + 10.0
        await close_expired(store, clock)
        (line,) = await api.rounds()
        assert (line["prediction_id"], line["reward"], line["outcome"]) == (first, 0.5, "feedback")
        assert body_of(await api.judge(first, reward=0.5), 200)["round"] == 1


async def test_a_prediction_may_wait_for_its_activation(api: Api) -> None:
    await api.create()
    own = body_of(await api.predict(activated=False), 200)["prediction_id"]
    problem_of(await api.judge(own, correct=True), 409, "not-activated", "prediction_id")
    for status in ("activated", "duplicate"):
        answer = body_of(await api.post("/activate", prediction_id=own), 200)
        assert answer == {"prediction_id": own, "status": status}
    assert body_of(await api.judge(own, correct=True), 200)["round"] == 1
    active = body_of(await api.predict(), 200)["prediction_id"]
    assert body_of(await api.post("/activate", prediction_id=active), 200)["status"] == "duplicate"
    batch = body_of(await api.post("/predict/batch", model=api.name, contexts=[X, X], activated=False), 200)
    for made in batch["predictions"]:
        problem_of(await api.judge(made["prediction_id"], correct=True), 409, "not-activated", "prediction_id")
        assert body_of(await api.post("/activate", prediction_id=made["prediction_id"]), 200)["status"] == "activated"
        assert body_of(await api.judge(made["prediction_id"], correct=True), 200)["status"] == "recorded"


async def listed(api: Api, limit: int = 100) -> dict[str, dict[str, Any]]:
    found, query = dict[str, dict[str, Any]](), dict[str, Any](limit=limit)
    while True:
        response = await api.get(f"/models/{api.name}/predictions", **query)
        assert (response.status_code, response.headers["content-type"]) == (200, "application/x-ndjson")
        found |= {line["prediction_id"]: line for line in map(json.loads, response.text.splitlines())}
        if "link" not in response.headers:
            return found
        link = rf'<({api.prefix}/models/[^?]+/predictions)\?cursor=([0-9.]+)&limit=(\d+)>; rel="next"'
        path, cursor, asked = re.fullmatch(link, response.headers["link"]).groups()  # type: ignore[union-attr]
        assert (path, int(asked)) == (f"{api.prefix}/models/{api.name}/predictions", limit)
        query["cursor"] = cursor


async def test_an_open_prediction_is_listed_as_it_was_answered(api: Api) -> None:
    await api.create(window_seconds=90.0)
    answer = body_of(await api.predict([0.2, 0.9, 0.1], prediction_id="mine"), 200)
    (line,) = (await listed(api)).values()
    same = ("prediction_id", "label", "labels", "propensity", "rounds_seen", "expires_at")
    assert {name: line[name] for name in same} == {name: answer[name] for name in same}
    assert (line["context"], line["status"], line["holdout"]) == ([0.2, 0.9, 0.1], "open", False)
    assert line["label"] in LABELS


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_pages_have_every_open_prediction_and_no_closed_one(
    client: httpx2.AsyncClient, name: str, prefix: str
) -> None:
    api = Api(client, prefix, name)
    await api.create()
    made = [body_of(await api.predict(), 200)["prediction_id"] for _ in range(5)]
    batch = body_of(await api.post("/predict/batch", model=api.name, contexts=[X] * 40), 200)
    made += [each["prediction_id"] for each in batch["predictions"]]
    other = Api(api._client, "", f"{api.name}-other")
    await other.create()
    await other.predict()
    assert set(await listed(api)) == set(await listed(api, limit=1)) == set(made)
    for closed in made[::3]:
        body_of(await api.judge(closed, correct=True), 200)
    assert set(await listed(api, limit=7)) == set(made) - set(made[::3])


@pytest.mark.parametrize(("late", "open_"), [("reject", 0), ("accept", 1)])
async def test_expired_predictions_are_listed_while_they_accept_feedback(
    store_url: str, name: str, late: str, open_: int
) -> None:
    clock = Clock()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        await api.create(window_seconds=90.0, late_feedback=late)
        await api.predict()
        clock.now = START + 90.0
        assert len(await listed(api)) == 1
        clock.now = START + 90.5
        assert len(await listed(api)) == open_


@pytest.mark.parametrize("query", [{"cursor": "x"}, {"cursor": "0"}, {"limit": 0}, {"limit": 1001}, {"after": 1}])
async def test_a_bad_query_is_refused(api: Api, query: dict[str, Any]) -> None:
    await api.create()
    response: httpx2.Response = await api.get(f"/models/{api.name}/predictions", **query)
    assert response.status_code in (400, 422)
    assert [body_of(response, response.status_code)["field"]] == list(query)


async def test_a_cursor_of_another_store_ends_the_listing(api: Api) -> None:
    await api.create()
    for cursor in ("7.0", "0.123456789"):
        assert (await api.get(f"/models/{api.name}/predictions", cursor=cursor)).status_code == 200
