"""The HTTP contract of rewards, activation, and predictions that expire."""

import json
from typing import Any

import pytest

from learners.registry import ALL_LEARNERS
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.api.test_webhooks import SECRET, signed
from tests.service.metrics import scrape, settled, value
from tests.service.rounds.clicks import close_expired
from tests.service.sample_models import SOBA_DIAGONAL, UNIFORM
from tests.service.workers import Clock, worker

WINDOW = 60.0
CLICKS = {"learner": UNIFORM, "on_expiry": "incorrect", "window_seconds": WINDOW, "learn": "on_arrival"}


async def test_a_reward_is_recorded_once_and_then_a_duplicate(api: Api) -> None:
    """An equal reward is a duplicate, another one a conflict that names the field; the log keeps the reward."""
    await api.create(learner=UNIFORM)
    own = body_of(await api.predict(), 200)["prediction_id"]
    first = body_of(await api.judge(own, reward=0.25), 200)
    assert first == {"prediction_id": own, "correct": None, "reward": 0.25, "status": "recorded", "round": 1}
    assert body_of(await api.judge(own, reward=0.25), 200) == first | {"status": "duplicate"}
    problem_of(await api.judge(own, reward=0.5), 409, "feedback-conflict", "reward")
    problem_of(await api.judge(own, correct=True), 409, "feedback-conflict", "correct")
    (line,) = await api.rounds()
    assert (line["outcome"], line["correct"], line["reward"], line["true_label"]) == ("feedback", None, 0.25, None)
    model = await api.model()
    assert (model["correct"], model["reward"]) == (0, 0.25)


@pytest.mark.parametrize("reward", [0, 1])
async def test_a_reward_of_0_or_1_is_a_bit(api: Api, reward: int) -> None:
    """It equals `correct`, and reads as `correct`."""
    await api.create(learner=UNIFORM)
    own = body_of(await api.predict(), 200)["prediction_id"]
    assert body_of(await api.judge(own, reward=reward), 200)["correct"] is bool(reward)
    assert body_of(await api.judge(own, correct=bool(reward)), 200)["status"] == "duplicate"
    problem_of(await api.judge(own, reward=0.5), 409, "feedback-conflict", "reward")


async def test_learners_of_bits_name_those_that_accept_rewards(api: Api) -> None:
    """The problem lists every learner that accepts rewards, and these accept them."""
    await api.create(learner=SOBA_DIAGONAL)
    own = body_of(await api.predict(), 200)["prediction_id"]
    problem = problem_of(await api.judge(own, reward=0.5), 422, "reward-not-accepted", "reward")
    accepting = [name for name, cls in ALL_LEARNERS.items() if cls.accepts_rewards]
    assert {"fastcb", "squarecb", "epsilon-greedy-ridge", "uniform"} <= set(accepting)
    assert all(name in problem["detail"] for name in accepting)
    assert (await api.model())["rounds_seen"] == 0


async def test_rewards_come_in_batches_and_webhooks(store_url: str, name: str) -> None:
    """Each item of a batch is judged alone; a webhook may have a reward."""
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
        assert value(samples, "wager_accuracy_ratio", model=name, policy="served", estimator="mean") == 1.75 / 3


# --- expiry


async def test_an_expired_prediction_is_a_round_of_its_own_kind(store_url: str, store: RedisStore, name: str) -> None:
    """The log says that it expired; metrics count it apart from feedback; late feedback gets 404."""
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
        assert (await api.model())["reward"] == 1.5
        samples = await scrape(client)
        assert value(samples, "wager_feedback_total", model=name, status="recorded") == 1
        assert value(samples, "wager_expired_rounds_total", model=name) == 1


async def test_feedback_waits_until_the_window_closes(store_url: str, store: RedisStore, name: str) -> None:
    """Its answer has no round before; afterwards, a repeat names the round."""
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


# --- activation


async def test_a_prediction_may_wait_for_its_activation(api: Api) -> None:
    """Before it, feedback gets 409; activating again changes nothing; feedback then makes a round."""
    await api.create()
    own = body_of(await api.predict(activated=False), 200)["prediction_id"]
    problem_of(await api.judge(own, correct=True), 409, "not-activated", "prediction_id")
    for status in ("activated", "duplicate"):
        answer = body_of(await api.post("/activate", prediction_id=own), 200)
        assert answer == {"prediction_id": own, "status": status}
    assert body_of(await api.judge(own, correct=True), 200)["round"] == 1
    batch = body_of(await api.post("/predict/batch", model=api.name, contexts=[X, X], activated=False), 200)
    for made in batch["predictions"]:
        problem_of(await api.judge(made["prediction_id"], correct=True), 409, "not-activated", "prediction_id")
        assert body_of(await api.post("/activate", prediction_id=made["prediction_id"]), 200)["status"] == "activated"
        assert body_of(await api.judge(made["prediction_id"], correct=True), 200)["status"] == "recorded"


async def test_an_active_prediction_is_activated_already(api: Api) -> None:
    """Predictions take feedback at once by default."""
    await api.create()
    own = body_of(await api.predict(), 200)["prediction_id"]
    assert body_of(await api.post("/activate", prediction_id=own), 200)["status"] == "duplicate"
