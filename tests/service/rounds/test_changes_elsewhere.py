"""The laws of changes that another worker made: this worker refuses nothing that the changed model allows."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.service.sample_models import definition, post, slug_of
from tests.service.workers import Clock, worker

X = [0.6, 0.8, 0.0]


class Two:
    """Two workers with one model; the first makes the changes, the second has seen the model before them."""

    def __init__(self, clients: list[httpx2.AsyncClient], clock: Clock, name: str, lag: float) -> None:
        self.changing, self.other = clients
        self.clock, self.name, self._lag = clock, name, lag

    async def begin(self, **fields: Any) -> str:
        """Create the model and predict with both workers; return the id of a prediction of the second."""
        freshness = {"max_lag_seconds": self._lag}
        await post(self.changing, "/models", 201, **definition(self.name, freshness=freshness, **fields))
        for client in (self.changing, self.other):
            answer = await post(client, "/predict", model=self.name, context=X, baseline="red")
        id_: str = answer["prediction_id"]
        return id_

    async def change(self, **body: Any) -> None:
        changed = await self.changing.patch(f"/models/{self.name}", json=body, headers={"If-Match": "*"})
        assert changed.status_code == 200, changed.text

    async def recreate(self, **fields: Any) -> None:
        assert (await self.changing.delete(f"/models/{self.name}")).status_code == 204
        await post(self.changing, "/models", 201, **definition(self.name, **fields))

    async def predict(self, status: int = 200, **body: Any) -> Any:
        return await post(self.other, "/predict", status, **{"model": self.name, "context": X} | body)

    async def judge(self, status: int = 200, **body: Any) -> Any:
        return await post(self.other, "/feedback", status, **body)

    async def batch(self, *items: dict[str, Any]) -> Any:
        return (await post(self.other, "/predict/batch", 200, model=self.name, items=items))["predictions"]


@pytest.fixture(params=[0.0, 60.0])
def two(request: pytest.FixtureRequest, store_url: str, runner: asyncio.Runner, name: str) -> Iterator[Two]:
    """Start two workers on one store, and let predictions miss recent rounds, but no change."""
    clock = Clock()
    contexts = [worker(store_url, clock), worker(store_url, clock)]
    yield Two([runner.run(context.__aenter__()) for context in contexts], clock, name, request.param)
    for context in contexts:
        runner.run(context.__aexit__(None, None, None))


async def test_a_new_label_is_a_truth_and_eligible(two: Two) -> None:
    made = await two.begin(learner="fastcb")
    await two.change(labels={"add": ["amber"]})
    assert not (await two.judge(prediction_id=made, true_label="amber"))["correct"]
    await two.change(labels={"add": ["teal"]})
    assert (await two.predict(eligible=["teal"]))["label"] == "teal"
    await two.change(labels={"add": ["pink"]})
    items: list[dict[str, Any]] = [{"context": X, "eligible": ["pink"]}, {"context": X, "eligible": ["never"]}]
    first, second = await two.batch(*items)
    assert (first["label"], slug_of(second)) == ("pink", "unknown-label")


async def test_a_retired_label_is_not_answered(two: Two) -> None:
    await two.begin()
    await two.change(labels={"retire": ["red", "green"]})
    for _ in range(10):
        assert (await two.predict())["label"] in ("blue", "none")
    await two.change(labels={"retire": []}, window_seconds=5.0)
    assert slug_of(await two.predict(422, eligible=["red"])) == "label-retired"


async def test_a_policy_is_drawn_from_at_once(two: Two) -> None:
    await two.begin(holdout={"fraction": 0.5, "policy": "baseline"})
    await two.change(mode="logging", holdout=None)
    answer = await two.predict(policy={"blue": 1.0})
    assert (answer["label"], answer["propensity"]) == ("blue", 1.0)


async def test_late_feedback_is_accepted_at_once(two: Two) -> None:
    made = await two.begin(window_seconds=10.0)
    two.clock.now += 20.0
    await two.judge(404, prediction_id=made, correct=True)
    await two.change(late_feedback="accept")
    await two.judge(200, prediction_id=made, correct=True)


async def test_a_model_created_again_elsewhere_is_the_one_that_answers(two: Two) -> None:
    await two.begin()
    await two.recreate(features={"kind": "dense", "size": 4})
    await two.predict(context=[1.0] * 4)
    await post(two.other, f"/models/{two.name}/explain", 200, context=[1.0] * 4)


async def test_a_recreated_model_answers_each_item_of_a_batch(two: Two) -> None:
    await two.begin()
    items: list[dict[str, Any]] = [{"context": X}, {"context": X, "eligible": ["nobody"]}]
    assert (await two.changing.delete(f"/models/{two.name}")).status_code == 204
    assert [slug_of(each) for each in await two.batch(*items)] == ["model-not-found"] * 2
    await two.begin()
    await two.recreate()
    drawn, refused = await two.batch(*items)
    assert (drawn["rounds_seen"], slug_of(refused)) == (0, "unknown-label")


@pytest.mark.parametrize("asked", [{}, {"top": 2}], ids=["one answer", "slots"])
@pytest.mark.parametrize("features", [{"kind": "named"}, {"kind": "dense", "size": 3}], ids=lambda each: each["kind"])
async def test_a_retry_on_a_worker_that_missed_the_change_keeps_its_answer(
    two: Two, features: dict[str, Any], asked: dict[str, Any]
) -> None:
    """Alone and in a batch, also beside other requests."""
    context: Any = {"u": {"age": 41.0}} if features["kind"] == "named" else X
    await post(two.changing, "/models", 201, **definition(two.name, features=features))
    items = [{"context": context, "prediction_id": id_, "eligible": ["red", "green"]} | asked for id_ in "ab"]
    first = await two.batch(*items)
    await two.change(labels={"retire": ["red"]})
    other = two.predict(422, context=context, prediction_id="c", eligible=["red", "green"])
    again, alone, refused = await asyncio.gather(two.batch(*items), two.predict(**items[0]), other)
    assert (again, alone, refused["field"]) == (first, first[0], "eligible.0")
