"""The laws of changes that another worker made: this worker refuses nothing that the changed model allows."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.service.sample_models import definition
from tests.service.workers import Clock, worker

X = [0.6, 0.8, 0.0]


class Two:
    """Two workers with one model; the first makes the changes, the second has seen the model before them."""

    def __init__(self, clients: list[httpx2.AsyncClient], clock: Clock, name: str, lag: float) -> None:
        self.changing, self.other = clients
        self.clock = clock
        self.name = name
        self._freshness = {"max_lag_seconds": lag}

    async def begin(self, **fields: Any) -> str:
        """Create the model and predict with both workers; return the id of a prediction of the second."""
        made = await self.changing.post("/models", json=definition(self.name, freshness=self._freshness, **fields))
        assert made.status_code == 201, made.text
        for client in (self.changing, self.other):
            answer = await client.post("/predict", json={"model": self.name, "context": X, "baseline": "red"})
        id_: str = answer.json()["prediction_id"]
        return id_

    async def change(self, **body: Any) -> None:
        """Change the model."""
        headers = {"If-Match": "*"}
        changed = await self.changing.patch(f"/models/{self.name}", json=body, headers=headers)
        assert changed.status_code == 200, changed.text

    async def predict(self, **body: Any) -> httpx2.Response:
        """Predict with the second worker."""
        return await self.other.post("/predict", json={"model": self.name, "context": X} | body)

    async def judge(self, **body: Any) -> httpx2.Response:
        """Give feedback to the second worker."""
        return await self.other.post("/feedback", json=body)


@pytest.fixture(params=[0.0, 60.0])
def two(request: pytest.FixtureRequest, store_url: str, runner: asyncio.Runner, name: str) -> Iterator[Two]:
    """Start two workers on one store, and let predictions miss recent rounds, but no change."""
    clock = Clock()
    contexts = [worker(store_url, clock), worker(store_url, clock)]
    yield Two([runner.run(context.__aenter__()) for context in contexts], clock, name, request.param)
    for context in contexts:
        runner.run(context.__aexit__(None, None, None))


async def test_a_new_label_is_known_as_a_truth(two: Two) -> None:
    """Feedback may name a label that another worker added a moment ago."""
    made = await two.begin(learner="fastcb")
    await two.change(labels={"add": ["amber"]})
    answer = await two.judge(prediction_id=made, true_label="amber")
    assert (answer.status_code, answer.json()["correct"]) == (200, False)


async def test_a_new_label_is_eligible(two: Two) -> None:
    """A request may name it, alone and in a batch."""
    await two.begin(learner="fastcb")
    await two.change(labels={"add": ["amber"]})
    answer = await two.predict(eligible=["amber"])
    assert (answer.status_code, answer.json()["label"]) == (200, "amber")
    await two.change(labels={"add": ["pink"]})
    items = [{"context": X, "eligible": ["pink"]}, {"context": X, "eligible": ["never"]}]
    batch = await two.other.post("/predict/batch", json={"model": two.name, "items": items})
    first, second = batch.json()["predictions"]
    assert (first["label"], second["type"]) == ("pink", "urn:wager:problem:unknown-label")


async def test_a_retired_label_is_not_answered(two: Two) -> None:
    """A prediction that the worker checked before the change is checked and drawn again."""
    await two.begin()
    await two.change(labels={"retire": ["red", "green", "blue"][:2]})
    for _ in range(10):
        assert (await two.predict()).json()["label"] in ("blue", "none")
    await two.change(labels={"retire": []}, window_seconds=5.0)
    assert (await two.predict(eligible=["red"])).json()["type"] == "urn:wager:problem:label-retired"


async def test_a_policy_is_drawn_from_at_once(two: Two) -> None:
    """The modes and holdouts that another worker set are in force."""
    await two.begin(holdout={"fraction": 0.5, "policy": "baseline"})
    await two.change(mode="logging", holdout=None)
    answer = await two.predict(policy={"blue": 1.0})
    assert (answer.status_code, answer.json()["label"], answer.json()["propensity"]) == (200, "blue", 1.0)


async def test_late_feedback_is_accepted_at_once(two: Two) -> None:
    """Feedback after the window is accepted as soon as the model accepts it."""
    made = await two.begin(window_seconds=10.0)
    two.clock.now += 20.0
    assert (await two.judge(prediction_id=made, correct=True)).status_code == 404
    await two.change(late_feedback="accept")
    assert (await two.judge(prediction_id=made, correct=True)).status_code == 200


async def test_a_model_created_again_elsewhere_is_the_one_that_answers(two: Two) -> None:
    """A request that does not fit the deleted model is judged by its successor."""
    await two.begin()
    assert (await two.changing.delete(f"/models/{two.name}")).status_code == 204
    longer, context = definition(two.name, features={"kind": "dense", "size": 4}), [1.0] * 4
    assert (await two.changing.post("/models", json=longer)).status_code == 201
    assert (await two.predict(context=context)).status_code == 200
    explained = await two.other.post(f"/models/{two.name}/explain", json={"context": context})
    assert explained.status_code == 200


@pytest.mark.parametrize("asked", [{}, {"top": 2}], ids=["one answer", "slots"])
@pytest.mark.parametrize("features", [{"kind": "named"}, {"kind": "dense", "size": 3}], ids=lambda each: each["kind"])
async def test_a_retry_on_a_worker_that_missed_the_change_keeps_its_answer(
    two: Two, features: dict[str, Any], asked: dict[str, Any]
) -> None:
    """A worker that has not seen a change repeats its answers, alone and in a batch, also beside other requests."""
    context: Any = {"u": {"age": 41.0}} if features["kind"] == "named" else X
    assert (await two.changing.post("/models", json=definition(two.name, features=features))).status_code == 201
    items = [{"context": context, "prediction_id": id_, "eligible": ["red", "green"]} | asked for id_ in "ab"]
    first = (await two.other.post("/predict/batch", json={"model": two.name, "items": items})).json()["predictions"]
    await two.change(labels={"retire": ["red"]})
    again = two.other.post("/predict/batch", json={"model": two.name, "items": items})
    alone = two.predict(**items[0])
    other = two.predict(context=context, prediction_id="c", eligible=["red", "green"])
    answers = await asyncio.gather(again, alone, other)
    assert answers[0].json()["predictions"] == first
    assert answers[1].json() == first[0]
    assert (answers[2].status_code, answers[2].json()["field"]) == (422, "eligible.0")


async def test_a_recreated_model_answers_each_item_of_a_batch(two: Two) -> None:
    """A refused item does not fail the others if another worker has deleted the model, and created it again."""
    await two.begin()
    assert (await two.changing.delete(f"/models/{two.name}")).status_code == 204
    items = [{"context": X}, {"context": X, "eligible": ["nobody"]}]
    body = {"model": two.name, "items": items}
    gone = await two.other.post("/predict/batch", json=body)
    assert gone.status_code == 200
    assert [each["type"] for each in gone.json()["predictions"]] == ["urn:wager:problem:model-not-found"] * 2
    await two.begin()
    assert (await two.changing.delete(f"/models/{two.name}")).status_code == 204
    assert (await two.changing.post("/models", json=definition(two.name))).status_code == 201
    answer = await two.other.post("/predict/batch", json=body)
    assert answer.status_code == 200
    drawn, refused = answer.json()["predictions"]
    assert drawn["rounds_seen"] == 0
    assert refused["type"] == "urn:wager:problem:unknown-label"
