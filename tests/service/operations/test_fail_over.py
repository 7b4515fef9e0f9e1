"""The laws of fail-overs that lose a change of labels: no acknowledged feedback is later another label, or damaged.

In its place, the store has no change or another one. Two workers have seen the lost one, and only the second makes the
other one.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from service.store import keys
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import body_of, problem_of
from tests.service.open_predictions import open_predictions
from tests.service.replicas.failing_over import LaggingReplica
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, worker

X = [0.6, 0.8, 0.0]
OTHERS: list[list[str]] = [[], ["kept", "more"]]
SAID: list[dict[str, Any]] = [{"true_label": "red"}, {"correct": True}, {"correct": False}, {"reward": 0.5}]


class Story:
    def __init__(self, workers: list[httpx2.AsyncClient], store: RedisStore, name: str, clock: Clock) -> None:
        self.workers = workers
        self.store = store
        self.name = name
        self.clock = clock
        self.replica = LaggingReplica(store, name)
        self.tags: list[str] = []  # before the lost change, and after it

    async def begin(self, **fields: Any) -> None:
        fields = {"learner": "fastcb", "freshness": {"max_lag_seconds": 60.0}} | fields
        body_of(await self.workers[0].post("/models", json=definition(self.name, **fields)), 201)
        self.early = [await self.predict(each, "red") for each in self.workers]
        await self.replica.copy()
        self.tags = [await self.tag(), (await self.change("lost")).headers["ETag"]]
        self.lost = [await self.predict(each, "lost", f"l{i}") for i, each in enumerate(self.workers)]

    async def fail_over(self, others: list[str]) -> None:
        await self.replica.take_over()
        if others:
            body_of(await self.change(*others, by=self.workers[1]), 200)

    async def tag(self, by: httpx2.AsyncClient | None = None) -> str:
        tag: str = (await (by or self.workers[0]).get(f"/models/{self.name}")).headers["ETag"]
        return tag

    async def change(
        self, *labels: str, tag: str = "*", by: httpx2.AsyncClient | None = None, **policies: Any
    ) -> httpx2.Response:
        body = policies | {"labels": {"add": labels}}
        return await (by or self.workers[0]).patch(f"/models/{self.name}", json=body, headers={"If-Match": tag})

    async def predict(self, by: httpx2.AsyncClient, label: str, own: str | None = None) -> str:
        body = {"model": self.name, "context": X, "eligible": [label]}
        body |= {} if own is None else {"prediction_id": f"{self.name}:{own}"}
        answer = body_of(await by.post("/predict", json=body), 200)
        assert answer["label"] == label
        return str(answer["prediction_id"])

    async def judge(self, by: httpx2.AsyncClient, prediction: str, **said: Any) -> httpx2.Response:
        return await by.post("/feedback", json={"prediction_id": prediction} | said)

    async def check(self, *truths: tuple[str, str | None]) -> None:
        for each in self.workers:
            body_of(await each.post("/predict", json={"model": self.name, "context": X}), 200)
            lines = lines_of(await each.get(f"/models/{self.name}/rounds"))
            assert [(line["label"], line["true_label"]) for line in lines] == list(truths)
            model = body_of(await each.get(f"/models/{self.name}"), 200)
            assert (model["rounds_seen"], model["damaged_rounds"]) == (len(truths), 0)


def lines_of(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture
def story(store_url: str, store: RedisStore, runner: asyncio.Runner, name: str) -> Iterator[Story]:
    clock = Clock()
    contexts = [worker(store_url, clock), worker(store_url, clock)]
    yield Story([runner.run(context.__aenter__()) for context in contexts], store, name, clock)
    for context in contexts:
        runner.run(context.__aexit__(None, None, None))


@pytest.mark.parametrize("others", OTHERS, ids=str)
@pytest.mark.parametrize("said", SAID, ids=str)
async def test_feedback_for_a_prediction_with_lost_labels_is_refused(
    story: Story, others: list[str], said: dict[str, Any]
) -> None:
    await story.begin()
    await story.fail_over(others)
    for each in story.workers:
        for prediction in story.lost:
            problem_of(await story.judge(each, prediction, **said), 409, "history-lost", "prediction_id")
    truths = [("red", "green"), ("red", "green")]
    for each, prediction in zip(story.workers, story.early, strict=True):
        body_of(await story.judge(each, prediction, true_label="green"), 200)
    await story.check(*truths)
    stats = await story.store.read_model_stats(story.name)
    assert stats is not None
    assert stats.refused == {"history-lost": 4}


@pytest.mark.parametrize("others", OTHERS, ids=str)
async def test_a_stored_answer_with_lost_labels_is_not_repeated(story: Story, others: list[str]) -> None:
    await story.begin()
    await story.fail_over(others)
    for own, each in zip(("l0", "l1"), story.workers, strict=True):
        body = {"model": story.name, "context": X, "prediction_id": f"{story.name}:{own}", "eligible": ["lost"]}
        answer = await each.post("/predict", json=body)
        problem_of(answer, 409, "history-lost", "prediction_id")
        listed = await open_predictions(each, story.name)
        assert {line["prediction_id"] for line in listed} == set(story.early)


@pytest.mark.parametrize("others", OTHERS, ids=str)
async def test_an_etag_of_a_lost_change_matches_nothing(story: Story, others: list[str]) -> None:
    await story.begin()
    await story.fail_over(others)
    for each in story.workers:
        answer = await story.change("late", tag=story.tags[1], by=each)
        problem_of(answer, 412, "precondition-failed", "If-Match")
    assert await story.tag() not in story.tags[1:]
    answer = await story.change("late", tag=story.tags[0])
    assert answer.status_code == (412 if others else 200)
    tag = await story.tag(story.workers[1])
    body_of(await story.change("latest", tag=tag), 200)
    await story.check()


@pytest.mark.parametrize("others", OTHERS, ids=str)
async def test_feedback_that_waits_with_a_lost_label_makes_no_round(story: Story, others: list[str]) -> None:
    await story.begin(learn="at_window_close", window_seconds=60.0, on_expiry="incorrect")
    for by, prediction in zip(story.workers, story.lost, strict=True):
        body_of(await story.judge(by, prediction, correct=True), 200)
    body_of(await story.judge(story.workers[0], story.early[0], true_label="green"), 200)
    await story.fail_over(others)
    stored = await story.store.get_model(story.name)
    assert stored is not None
    waiting = keys.deadlines(*stored.key)
    for prediction in (*story.lost, *story.early):
        await story.store.command("ZADD", waiting, story.clock.now, prediction.partition(":")[2])
    story.clock.now += 120.0
    offset = story.clock.now - float((await story.store.command("TIME"))[0])
    await story.store.close_expired(stored.key, offset, 8)
    await story.store.close_expired(stored.key, offset, 8)
    lines = lines_of(await story.workers[1].get(f"/models/{story.name}/rounds"))
    assert sorted((line["label"], line["outcome"]) for line in lines) == [("red", "expired"), ("red", "feedback")]
    stats = await story.store.read_model_stats(story.name)
    assert stats is not None
    assert stats.refused == {"history-lost": 2}
    assert body_of(await story.workers[0].get(f"/models/{story.name}"), 200)["damaged_rounds"] == 0


@pytest.mark.parametrize("others", OTHERS, ids=str)
async def test_a_snapshot_with_a_lost_change_is_not_used(story: Story, others: list[str]) -> None:
    story.replica = LaggingReplica(story.store, story.name, ":snapshot")
    await story.begin()
    early = await story.predict(story.workers[0], "red")
    body_of(await story.judge(story.workers[0], early, correct=True), 200)
    body_of(await story.workers[0].post(f"/models/{story.name}/snapshots", json={"id": "mine"}), 201)
    stored = await story.store.get_model(story.name)
    assert stored is not None
    await story.store.command("COPY", keys.kept_snapshot(*stored.key, "mine"), keys.snapshot(*stored.key))
    snapshot = await story.store.load_snapshot(stored.key)
    assert snapshot is not None
    assert snapshot.change_count == 1
    await story.fail_over(others)
    await story.check()
    damage = (await story.store.read_damage(stored.key)).found
    assert [each.snapshot for each in damage] == [True]
    assert await story.store.save_snapshot(stored.key, snapshot._replace(last_at=None), 10) == 0
    for label in others:
        await story.predict(story.workers[0], label)


CHANGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "labels": ("PATCH", "", {"labels": {"add": ["new"], "retire": []}}),
    "reset": ("POST", "/reset", {}),
    "promote": ("POST", "/promote", {"shadow": "rival"}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_call_overtaken_by_the_same_change_has_its_result(
    store_url: str, name: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, path, body = CHANGES[change]
    both, write = asyncio.Barrier(2), RedisStore.change_model

    async def together(self: RedisStore, *args: Any, **options: Any) -> bool:
        await asyncio.wait_for(both.wait(), 5.0)
        return await write(self, *args, **options)

    async with worker(store_url, Clock(), 1) as one, worker(store_url, Clock(START + 1.0), 2) as other:
        await one.post("/models", json=definition(name))
        await one.put(f"/models/{name}/shadows/rival", json={"learner": "gaptron"})
        headers = {"If-Match": (await one.get(f"/models/{name}")).headers["ETag"]}
        monkeypatch.setattr(RedisStore, "change_model", together)

        def call(client: httpx2.AsyncClient) -> Any:
            return client.request(method, f"/models/{name}{path}", json=body, headers=headers)

        answers = await asyncio.gather(call(one), call(other))
        assert [each.status_code for each in answers] == [200, 200], [each.text for each in answers]
        assert (await one.get(f"/models/{name}")).json()["changes"]["count"] == 1
