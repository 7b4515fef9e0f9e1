"""The laws of the client against the real service, also while it fails."""

import functools
import os
import re
import signal
from collections import Counter
from pathlib import Path
from types import CodeType
from typing import Any

import httpx
import httpx2
import pytest

import wager_client
from tests.service import wager as server
from wager_client import (
    AsyncFeedbackQueue,
    AsyncWager,
    FeedbackItem,
    FeedbackQueue,
    InvalidInputError,
    ProblemError,
    Slot,
    Wager,
    problems,
)

ROOT = Path(__file__).parents[2]

PATIENCE = 180.0
"""Seconds: uvicorn replaces a killed worker up to 35 s later, and the new one starts slowly on a busy machine."""

README = Path(wager_client.__file__).parents[1] / "README.md"


async def check_decision(wager: AsyncWager, slot: Slot) -> None:
    decision = await wager.prediction(slot.prediction_id or "")
    assert (decision.status, decision.label, decision.context) == ("recorded", slot.label, {"x": 3})
    assert decision.outcome is not None
    assert (decision.outcome.reward, decision.outcome.round) == (0.5, 2)
    assert decision.distribution is not None
    assert decision.distribution[slot.label] == slot.propensity


async def test_every_method_works_with_the_service(client: httpx2.AsyncClient, name: str) -> None:
    wager = AsyncWager("http://localhost", timeout=60.0, http_client=client)
    assert (await wager.health()).status == "ready"
    made = await wager.create_model(name, labels=["a", "b", "c"], features={"kind": "named"})
    assert (await wager.create_model(name, labels=["a", "b"], exist_ok=True)).labels == made.labels
    with pytest.raises(problems.ModelExistsError):
        await wager.create_model(name, labels=["a", "b"])
    prediction = await wager.predict(name, {"x": 1}, eligible=["a", "b"], include_distribution=True)
    assert prediction.distribution is not None
    assert prediction.propensity == prediction.distribution[str(prediction.label)]
    assert (await wager.feedback(prediction, true_label="c")).correct is False
    assert (await wager.feedback(prediction, true_label="c")).status == "duplicate"
    with pytest.raises(problems.FeedbackConflictError):
        await wager.feedback(prediction, true_label=prediction.label)
    hidden = await wager.predict(name, {"x": 2}, activated=False)
    with pytest.raises(problems.NotActivatedError):
        await wager.feedback(hidden, correct=True)
    assert [(await wager.activate(hidden)).status for _ in range(2)] == ["activated", "duplicate"]
    slots = (await wager.predict(name, {"x": 3}, top=2)).slots
    assert slots is not None
    assert (await wager.feedback(slots[1], reward=0.5)).reward == 0.5
    good, bad = await wager.predict_batch(name, [{"context": {"x": 1}}, {"context": [1.0]}])
    assert not isinstance(good, ProblemError)
    assert isinstance(bad, InvalidInputError)
    found, missing = await wager.feedback_batch(
        [FeedbackItem(good.prediction_id, correct=True), FeedbackItem(f"{name}:none", correct=True)]
    )
    assert not isinstance(found, ProblemError)
    assert isinstance(missing, problems.PredictionNotFoundError)
    assert [each.round async for each in wager.rounds(name, page_size=2)] == [1, 2, 3]
    assert (await wager.explain(name, {"x": 1})).rounds_seen == 3
    await check_decision(wager, slots[1])
    old = await wager.get_model(name)
    changed = await wager.change_model(old, {"labels": {"add": ["d"]}, "window_seconds": 60.0})
    assert changed.labels == ("a", "b", "c", "d")
    with pytest.raises(problems.PreconditionFailedError):
        await wager.change_model(old, {"mode": "frozen"})
    await wager.delete_model(name)
    with pytest.raises(problems.ModelNotFoundError):
        await wager.get_model(name)


async def test_lists_are_read_searched_and_sorted(client: httpx2.AsyncClient, name: str) -> None:
    wager = AsyncWager("http://localhost", timeout=60.0, http_client=client)
    await wager.create_model(name, labels=["a", "b"])
    assert name in {each.name async for each in wager.list_models(page_size=100)}
    assert [each.name async for each in wager.list_models(search=name.upper(), sort="trouble")] == [name]
    await wager.delete_model(name)


async def test_costs_are_sent_and_read(client: httpx2.AsyncClient, name: str) -> None:
    """The costs of requests reach decisions and rounds, of single requests, of batches, and through a queue."""
    wager = AsyncWager("http://localhost", timeout=60.0, http_client=client)
    made = await wager.create_model(name, labels=["a", "b"], costs={"a": 2.0}, cost_weight=0.5)
    assert [made.raw[key] for key in ("costs", "cost_weight", "budget")] == [{"a": 2.0}, 0.5, None]
    one = await wager.predict(name, eligible=["a"])
    decision = await wager.prediction(one.prediction_id or "")
    assert (decision.cost, decision.cost_weight, decision.costs, decision.budget) == (2.0, 0.5, {"a": 2.0}, None)
    own: dict[str, Any] = {"eligible": ["b"], "costs": {"b": 3}, "cost_weight": 0.25}
    alone = await wager.predict(name, **own)
    (item,) = await wager.predict_batch(name, [own])
    assert not isinstance(item, ProblemError)
    async with AsyncFeedbackQueue(wager) as queue:
        assert all([queue.put(each, correct=True) for each in (one, alone, item)])
    found = {each.prediction_id: each async for each in wager.rounds(name)}
    lines = [found[str(each.prediction_id)] for each in (one, alone, item)]
    given = (3.0, 0.25, {"b": 3.0})
    assert [(each.cost, each.cost_weight, each.costs) for each in lines] == [(2.0, 0.5, None), given, given]
    paced = {"budget": {"cost": 0.5}, "cost_weight": 0.0, "on_expiry": "incorrect", "window_seconds": 600}
    await wager.change_model(await wager.get_model(name), paced)
    with pytest.raises(InvalidInputError, match="cost_weight"):
        await wager.predict(name, cost_weight=0.25)
    paid = await wager.prediction((await wager.predict(name)).prediction_id or "")
    assert paid.budget == {"cost": 0.5}
    assert paid.cost_weight == pytest.approx(0.1 / 0.5)


async def test_impossible_costs_are_refused_by_name(client: httpx2.AsyncClient, name: str) -> None:
    wager = AsyncWager("http://localhost", timeout=60.0, http_client=client)
    for definition, field in (
        ({"costs": {"z": 1.0}}, "costs.z"),
        ({"costs": {"a": -1.0}}, "costs.a"),
        ({"cost_weight": -1.0}, "cost_weight"),
        ({"costs": {"a": 1.0}, "learner": "gaptron"}, "costs"),
        ({"costs": {"a": 1.0}, "budget": {"cost": 0.5}}, "budget"),
    ):
        with pytest.raises(ProblemError) as refused:
            await wager.create_model(name, labels=["a", "b"], **definition)
        assert refused.value.field == field
    await wager.create_model(name, labels=["a", "b"])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"costs": {"z": 1.0}}, "costs.z"),
        ({"costs": {"a": -1.0}}, "costs.a"),
        ({"costs": {"a": 1e7}}, "costs.a"),
        ({"costs": {"a": 1.0}, "cost_weight": -0.5}, "cost_weight"),
        ({"cost_weight": 0.5}, "cost_weight"),
    ]
    results = await wager.predict_batch(name, [item for item, _ in wrong])
    for (item, field), result in zip(wrong, results, strict=True):
        with pytest.raises(ProblemError) as refused:
            await wager.predict(name, **item)
        assert isinstance(result, ProblemError)
        assert (refused.value.field, result.field) == (field, field), item
    assert (await wager.get_model(name)).predictions == 0


async def test_the_asynchronous_client_works_with_a_client_of_httpx(running: server.Wager, name: str) -> None:
    async with (
        httpx.AsyncClient(verify=False) as http,
        AsyncWager(running.url, timeout=60.0, http_client=http) as client,
    ):
        await client.create_model(name, labels=["a", "b"])
        prediction = await client.predict(name)
        assert (await client.feedback(prediction, correct=True)).round == 1
        assert [each.prediction_id async for each in client.rounds(name)] == [prediction.prediction_id]


def test_the_examples_of_the_readme_run(
    running: server.Wager, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WAGER_BASE_URL", running.url)
    monkeypatch.chdir(tmp_path)
    Path("feedback.jsonl.rejected").write_text('{"feedback": {"prediction_id": "no-such-model:1", "correct": true}}\n')
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block.replace("http://127.0.0.1:8000", running.url), str(README), "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"(sports|politics|science) 0\.3{15,}\d*", printed[0])
    assert "no-such-model" in printed[1]
    assert printed[2] == "model-not-found model"


def front_page(url: str) -> CodeType:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return compile(block.replace("http://127.0.0.1:8000", url), "README.md", "exec")


def test_the_first_example_runs_again(running: server.Wager, capsys: pytest.CaptureFixture[str]) -> None:
    httpx2.delete(f"{running.url}/models/front-page")
    for _ in range(2):
        names: dict[str, Any] = {}
        exec(front_page(running.url), names)
        names["wager"].close()
    assert re.fullmatch(r"((sports|politics|science) 0\.\d+\n){2}", capsys.readouterr().out)
    assert httpx2.get(f"{running.url}/models/front-page").json()["correct"] == 2
    httpx2.delete(f"{running.url}/models/front-page").raise_for_status()


@pytest.mark.parametrize("path", ["/models", "/predict", "/feedback"])
def test_the_first_example_reports_a_refusal(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        made = {"prediction_id": "front-page:1", "label": "sports", "propensity": 0.5}
        return httpx2.Response(503, request=request) if request.url.path == path else httpx2.Response(200, json=made)

    transport = httpx2.MockTransport(answer)
    monkeypatch.setattr(httpx2, "Client", functools.partial(httpx2.Client, transport=transport))
    with pytest.raises(httpx2.HTTPStatusError, match="503"):
        exec(front_page("http://service"), {})


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_when_processes_are_killed(tmp_path: Path, name: str) -> None:
    n, rewards = 400, {}
    with (
        server.serve(tmp_path, workers=2) as service,
        Wager(service.url, timeout=PATIENCE, max_retries=1000) as client,
        FeedbackQueue(client, batch=20) as feedback,
    ):
        client.create_model(name, labels=["a", "b"])
        victims = {100: service.worker_pids()[0], 200: service.store_pid()}
        for i in range(n):
            if i in victims:
                os.kill(victims[i], signal.SIGKILL)
            prediction = client.predict(name)
            rewards[prediction.prediction_id] = i % 5 / 4
            feedback.put(prediction, reward=i % 5 / 4)
        assert feedback.flush(PATIENCE)
        report = feedback.report()
        rounds = {each.prediction_id: each.reward for each in client.rounds(name)}
        assert client.get_model(name).rounds_seen == n
    assert len(rewards) == n
    assert rounds == rewards
    assert report.recorded + report.duplicates == n
    assert (report.lost, report.pending) == (0, 0)
    assert client.counts.retries > 0
    assert Counter(rounds.values()) == Counter(rewards.values())


class Switch(httpx2.AsyncBaseTransport):
    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.away = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.away:
            raise httpx2.ConnectError("refused")
        return await self._client._transport.handle_async_request(request)


async def test_an_outage_loses_nothing_and_doubles_nothing(
    client: httpx2.AsyncClient, tmp_path: Path, name: str
) -> None:
    service, file = Switch(client), tmp_path / "feedback.jsonl"
    wager = AsyncWager("http://localhost", backoff=0.0, http_client=httpx2.AsyncClient(transport=service))
    await wager.create_model(name, labels=["a", "b"])
    kept = [await wager.predict(name) for _ in range(20)]
    queue = AsyncFeedbackQueue(wager, spool=file)
    service.away = True
    for prediction in kept:
        queue.put(prediction, correct=True)
        queue.put(await wager.predict(name, default="a"), correct=True)
    first = await queue.close(timeout=0.0)
    assert (first.pending, first.ignored, first.lost, wager.counts.defaults) == (20, 20, 0, 20)
    service.away = False
    async with AsyncFeedbackQueue(wager, spool=file) as again:
        again.put(kept[0], correct=True)
        assert await again.flush(60.0)
    report = again.report()
    assert (report.recorded, report.duplicates, report.lost) == (20, 1, 0)
    assert [each.prediction_id async for each in wager.rounds(name)] == [each.prediction_id for each in kept]
    assert (await wager.get_model(name)).predictions == 20
