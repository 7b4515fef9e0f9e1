"""The laws of feedback queues: nothing is lost without a count, and every count is true."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.doubles import (
    EACH_QUEUE,
    Memory,
    Scripted,
    async_client_of,
    async_queue_of,
    client_of,
    done,
    outbox,
    problem,
)
from tests.servers import wait_until
from wager_client import AsyncFeedbackQueue, FeedbackItem, FeedbackQueue, Report
from wager_client.errors import ProblemError, problem_of
from wager_client.results import Feedback
from wager_client.sending import LONGEST_ATTEMPT
from wager_client.spool import Spool

FAILURES: list[str | int] = ["lost", "lost answer", 503, "lost answer", "", 500, "lost", ""]


def item(n: int) -> FeedbackItem:
    return FeedbackItem(f"m:{n}", correct=True)


def refusal(slug: str, status: int = 409) -> ProblemError:
    return problem_of(status, {"type": f"urn:wager:problem:{slug}"})


def ids(items: list[FeedbackItem]) -> list[str | None]:
    return [each.prediction_id for each in items]


@pytest.mark.parametrize(
    ("drop", "kept", "lost"), [("oldest", ["m:2", "m:3"], "m:1"), ("newest", ["m:1", "m:2"], "m:3")]
)
def test_a_full_queue_drops_by_its_rule(drop: str, kept: list[str], lost: str) -> None:
    dropped: list[tuple[str | None, str]] = []
    box = outbox(2, 10, drop, lambda each, why: dropped.append((each.prediction_id, why)))
    added = [box.add(item(n)) for n in (1, 2, 3)]
    box.call_back()
    assert added == [True, True, drop == "oldest"]
    assert dropped == [(lost, "full")]
    assert ids(box.take()) == kept
    assert (box.report().dropped, box.report().pending) == (1, 2)


@pytest.mark.parametrize("outcome", [TimeoutError(), [problem_of(503, {})]], ids=["unanswered", "refused"])
def test_newest_keeps_the_failed_feedback_of_the_new_items_model(outcome: Any) -> None:
    dropped: list[str | None] = []
    box = outbox(2, 10, "newest", lambda each, _: dropped.append(each.prediction_id))
    box.add(item(1))
    box.take()
    box.settle(outcome)
    added = [box.add(item(n)) for n in (2, 3)]
    box.call_back()
    assert (added, dropped) == ([True, False], ["m:3"])


@pytest.mark.parametrize("state", ["waiting", "sent again", "dropped"])
def test_newest_drops_the_new_item_only_while_its_model_has_failed_feedback(state: str) -> None:
    clock, away = [0.0], [problem_of(503, {})]
    box = outbox(2, 1, "newest", clock=clock)
    for each in ("a:1", "b:1"):
        box.add(FeedbackItem(each, correct=True))
        box.take()
        box.settle(away)
    if state == "sent again":
        clock[0] += 60.0
        while ids(box.take()) != ["a:1"]:
            box.settle(away)
    if state == "dropped":
        assert box.add(FeedbackItem("c:1", correct=True))
    assert box.add(FeedbackItem("a:2", correct=True)) is (state == "dropped")


def test_each_result_has_its_count() -> None:
    clock = [0.0]
    box = outbox(10, 10, clock=clock)
    for n in range(8):
        box.add(item(n))
    box.add(FeedbackItem(None))
    box.take()
    results: list[Feedback | ProblemError] = [
        Feedback("m:0", "recorded"),
        Feedback("m:1", "duplicate"),
        refusal("feedback-conflict"),
        refusal("prediction-expired", 404),
        refusal("reward-not-accepted", 422),
        refusal("store-unavailable", 503),
        refusal("model-not-found", 404),
        refusal("store-full", 507),
    ]
    box.settle(results)
    found = box.report()
    assert (found.recorded, found.duplicates, found.conflicts, found.expired, found.refused) == (1, 1, 1, 2, 1)
    assert (found.ignored, found.pending, found.lost) == (1, 2, 4)
    assert found.last_error is not None
    assert "store-full" in found.last_error
    assert box.take() == []
    clock[0] += 1.0
    assert ids(box.take()) == ["m:5", "m:7"]


def test_a_refused_batch_is_split_until_the_item_is_found() -> None:
    box = outbox(10, 8)
    for n in range(8):
        box.add(item(n))
    sizes = []
    while taken := box.take():
        sizes.append(len(taken))
        if "m:5" in ids(taken):
            box.settle(refusal("body-too-large", 413))
        else:
            box.settle([Feedback(each.prediction_id, "recorded") for each in taken])
    assert sizes[:3] == [8, 4, 4]
    assert (box.report().recorded, box.report().refused) == (7, 1)


def test_values_that_json_lacks_are_refused_before_they_are_in_the_queue() -> None:
    with FeedbackQueue(client_of(Memory())) as queue:
        with pytest.raises(ValueError, match="JSON"):
            queue.put("m:1", reward=float("nan"))
        assert queue.report().pending == 0


@EACH_QUEUE
async def test_everything_arrives_once_through_failures(make: Any) -> None:
    service = Memory(FAILURES)
    queue = make(service, batch=7)
    for n in range(100):
        assert queue.put(f"m:{n}", correct=n % 2 == 0)
    assert await done(queue.flush(30.0))
    found = await done(queue.close())
    assert len(service.rounds) == found.recorded + found.duplicates == 100
    assert found.duplicates >= 1
    assert (found.lost, found.pending, found.last_error) == (0, 0, None)


@EACH_QUEUE
async def test_a_request_that_hangs_does_not_stop_the_queue(make: Any) -> None:
    given: list[float] = []
    memory = Memory()

    def serve(request: httpx2.Request) -> httpx2.Response:
        given.append(request.extensions["timeout"]["read"])
        return memory(request)

    queue = make(serve, timeout=60.0)
    queue.put("m:1", correct=True)
    assert await done(queue.flush(30.0))
    await done(queue.close())
    assert len(given) == 1
    assert given[0] <= LONGEST_ATTEMPT


@EACH_QUEUE
async def test_closing_while_the_service_is_away_reports_what_is_dropped(make: Any) -> None:
    lost: list[str] = []
    queue = make(Scripted(httpx2.ConnectError("refused")), on_drop=lambda _, why: lost.append(why))
    for n in range(5):
        queue.put(f"m:{n}", correct=True)
    await asyncio.sleep(0.01)
    started = time.monotonic()
    found = await done(queue.close(timeout=0.1))
    assert time.monotonic() - started < 5.0
    assert (found.dropped, found.pending, lost) == (5, 0, ["closed"] * 5)
    assert "refused" in found.last_error
    assert await done(queue.close()) == found
    with pytest.raises(RuntimeError, match="closed"):
        queue.put("m:9", correct=True)


async def test_calls_of_close_at_the_same_time_count_each_item_once() -> None:
    lost: list[str] = []
    queue = async_queue_of(Scripted(httpx2.ConnectError("refused")), on_drop=lambda _, why: lost.append(why))
    for n in range(5):
        queue.put(f"m:{n}", correct=True)
    first, second = await asyncio.wait_for(asyncio.gather(queue.close(0.1), queue.close(600.0)), 60.0)
    assert first == second
    assert (first.dropped, lost) == (5, ["closed"] * 5)


def test_an_asynchronous_queue_belongs_to_its_event_loop(tmp_path: Path) -> None:
    memory, refused = Memory(), "the feedback queue belongs to the event loop that made it"

    async def made() -> AsyncFeedbackQueue:
        return AsyncFeedbackQueue(async_client_of(memory), spool=tmp_path / "feedback.jsonl")

    async def use_elsewhere(queue: AsyncFeedbackQueue) -> None:
        with pytest.raises(RuntimeError, match=refused):
            queue.put("m:1", correct=True)
        for wait in (queue.flush, queue.close):
            with pytest.raises(RuntimeError, match=refused):
                await wait(0.1)

    async def use(queue: AsyncFeedbackQueue) -> Report:
        with pytest.raises(RuntimeError, match=refused):
            await asyncio.to_thread(queue.put, "m:1", correct=True)
        queue.put("m:2", correct=True)
        return await queue.close(30.0)

    with asyncio.Runner() as own:
        queue = own.run(made())
        asyncio.run(use_elsewhere(queue))
        assert own.run(use(queue)).recorded == 1
        assert asyncio.run(queue.close()).recorded == 1
    assert list(memory.rounds) == ["m:2"]


def test_an_asynchronous_queue_without_an_event_loop_leaves_no_file(tmp_path: Path) -> None:
    client, path = async_client_of(Memory()), tmp_path / "feedback.jsonl"
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncFeedbackQueue(client, spool=path)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_key_waits_for_a_right_one() -> None:
    memory = Memory()
    keys = ["wrong"]
    wrong = Scripted(problem(401, "invalid-api-key"))
    queue = FeedbackQueue(client_of(lambda request: wrong(request) if keys else memory(request)))
    queue.put("m:1", correct=True)
    wait_until(lambda: "invalid-api-key" in (queue.report().last_error or ""))
    keys.clear()
    assert queue.flush(30.0)
    assert len(memory.rounds) == 1
    queue.close()


def test_a_failing_callback_does_not_end_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with FeedbackQueue(client_of(Memory()), on_drop=fail) as queue:
        queue.put("m:1", correct=True)
        queue.put("m:1", correct=False)
        assert queue.flush()
        queue.put("m:2", correct=True)
        assert queue.flush()
    assert queue.report().conflicts == 1
    assert "on_drop failed" in caplog.text


def test_a_file_remembers_the_queue(tmp_path: Path) -> None:
    path, memory = tmp_path / "feedback.jsonl", Memory()
    first = FeedbackQueue(client_of(Scripted(httpx2.ConnectError("refused"))), spool=path)
    for n in range(5):
        first.put(f"m:{n}", reward=n / 4)
    assert first.close(timeout=0.0).pending == 5
    with FeedbackQueue(client_of(memory), spool=path) as second:
        assert second.flush(30.0)
        assert second.report().recorded == 5
    assert [each["reward"] for each in memory.rounds.values()] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert not path.exists()


def test_a_killed_process_loses_nothing_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl"
    spool = Spool(path, now=time.time)
    box = outbox(10, 2, record=spool)
    for n in range(4):
        box.add(item(n))
    box.take()
    box.settle([Feedback("m:0", "recorded"), Feedback("m:1", "recorded")])
    killed = path.read_bytes() + b'{"number": 5, "predic'
    spool.close()
    path.write_bytes(killed)
    again = Spool(path, now=time.time, fsync=True)
    assert [entry.item for entry in again.restore()] == [item(2), item(3)]
    assert [entry.number for entry in again.restore()] == [3, 4]
    again.close()


def test_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl"
    spool = Spool(path, now=time.time)
    box = outbox(10, 10, record=spool)
    for n in range(11_000):
        box.add(item(n))
        if n % 10 == 9:
            box.settle([Feedback(each.prediction_id, "recorded") for each in box.take()])
    assert path.stat().st_size < 200_000
    spool.close()
