"""The laws of what a queue sends next: what fails waits, and delays nothing else."""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import httpx2
import pytest

from service.api.responses.problem_types import every_kind
from tests.client.doubles import EACH_QUEUE, done, outbox, recorded
from wager_client import FeedbackItem, NoAnswerError, ProblemError, Report
from wager_client.errors import problem_of
from wager_client.outbox import Outbox, may_succeed
from wager_client.results import Feedback

Outcome = list[Feedback | ProblemError] | Exception
REFUSED = NoAnswerError("refused", maybe_done=False)
CORRUPT = (500, "store-corrupt")
AWAY = (503, "store-unavailable")


def problem(status: int, slug: str = "", retry_after: float | None = None) -> ProblemError:
    return problem_of(status, {"type": f"urn:wager:problem:{slug}"}, retry_after)


class Service:
    """A service whose models and predictions fail as a test says.

    Attributes:
        failing: the status and type of a problem by model or prediction id.
        poison: ids and the error that a whole request with one of them gets.
        requests: the ids of each request.
        found: the ids that it has recorded.
    """

    def __init__(self, **failing: tuple[int, str]) -> None:
        self.failing = failing
        self.poison: dict[str, Exception] = {}
        self.requests: list[list[str]] = []
        self.found: list[str] = []

    def answer(self, items: list[FeedbackItem]) -> Outcome:
        ids = [str(item.prediction_id) for item in items]
        self.requests.append(ids)
        for each in ids:
            if each in self.poison:
                return self.poison[each]
        return [self._result(each) for each in ids]

    def _result(self, prediction_id: str) -> Feedback | ProblemError:
        failure = self.failing.get(prediction_id) or self.failing.get(prediction_id.partition(":")[0])
        if failure:
            return problem(*failure)
        self.found.append(prediction_id)
        return Feedback(prediction_id, "recorded")


class Driven:
    def __init__(self, service: Service, size: int = 10_000, batch: int = 200, *arguments: Any) -> None:
        self.service, self.clock = service, [0.0]
        self.box: Outbox = outbox(size, batch, *arguments, clock=self.clock)

    def add(self, *ids: str) -> None:
        for each in ids:
            self.box.add(FeedbackItem(each, correct=True))

    def send(self) -> None:
        while items := self.box.take():
            assert len(self.service.requests) < 5000, "requests without a wait"
            self.box.settle(self.service.answer(items))

    def run(self, seconds: float) -> None:
        end = self.clock[0] + seconds
        self.send()
        while (wait := self.box.wait()) is not None and self.clock[0] + wait <= end:
            self.clock[0] += wait
            self.send()
        self.clock[0] = end

    def report(self) -> Report:
        return self.box.report()


def ids(model: str, n: int) -> list[str]:
    return [f"{model}:{i}" for i in range(n)]


@pytest.mark.parametrize("failure", [CORRUPT, AWAY, (503, "newer-version"), (507, "store-full"), (500, "")])
def test_a_damaged_model_delays_no_other(failure: tuple[int, str]) -> None:
    driven = Driven(Service(bad=failure))
    driven.add(*ids("bad", 5000), *ids("good", 50))
    driven.send()
    assert (driven.report().recorded, driven.report().pending) == (50, 5000)
    driven.run(10.0)
    driven.add(*ids("good", 70)[50:])
    driven.send()
    assert driven.report().recorded == 70


def test_a_damaged_prediction_delays_no_other() -> None:
    driven = Driven(Service(**{"m:7": CORRUPT}))
    driven.add(*ids("m", 3000))
    driven.send()
    assert driven.report().recorded == 2999
    assert [each for each in driven.service.requests if "m:7" in each] == [ids("m", 200)]
    for n in range(3000, 3010):
        driven.run(60.0)
        driven.add(f"m:{n}")
        driven.send()
    assert (driven.report().recorded, driven.report().pending) == (3009, 1)


def test_waits_grow_for_each_model_and_end_with_success() -> None:
    driven = Driven(Service(bad=CORRUPT))
    driven.add(*ids("bad", 1))
    times: list[float] = []
    while len(times) < 10:
        driven.send()
        times.append(driven.clock[0])
        driven.clock[0] += driven.box.wait() or 0.0
    waits = [after - before for before, after in pairwise(times)]
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    driven.add(*ids("bad", 1000)[1:])
    driven.run(20.0)
    assert "store-corrupt" in (driven.report().last_error or "")
    driven.service.failing.clear()
    driven.clock[0] += driven.box.wait() or 0.0
    driven.send()
    assert (driven.report().recorded, driven.report().pending, driven.report().last_error) == (1000, 0, None)


@pytest.mark.parametrize("waiting", [1, 4000])
def test_a_damaged_model_costs_few_requests(waiting: int) -> None:
    driven = Driven(Service(bad=CORRUPT, **{"good:0": CORRUPT}))
    driven.add(*ids("bad", waiting))
    driven.run(60.0)
    before = len(driven.service.requests)
    for n in range(600):
        driven.add(f"good:{n}", f"bad:new-{n}")
        driven.run(0.1)
    bad = [each for each in driven.service.requests[before:] if any(name.startswith("bad:") for name in each)]
    assert len(bad) <= 2 * (7 + 60 / 5)
    assert len([each for each in driven.service.requests[before:] if "good:0" in each]) <= 10 + 60 / 5
    assert driven.report().recorded == 599


def test_models_share_a_request() -> None:
    driven = Driven(Service(), 100_000, 100)
    driven.add(*ids("busy", 1000), *ids("other", 30))
    assert Counter(name.partition(":")[0] for name in _taken(driven)) == {"busy": 70, "other": 30}
    many = Driven(Service(), 100_000, 100)
    many.add(*(f"m{n % 250}:{n}" for n in range(1000)))
    first = [name for _ in range(3) for name in _taken(many)]
    assert len({name.partition(":")[0] for name in first}) == 250


def _taken(driven: Driven) -> list[str]:
    items = driven.box.take()
    driven.box.settle(driven.service.answer(items))
    return [str(item.prediction_id) for item in items]


LATER = {"invalid-api-key", "invalid-signature", "not-allowed", "slow-body", "rate-limited", "too-many-wrong-keys"}
LATER |= {"not-activated", "foreign-origin", "unknown-host", "open-predictions-full"}
LATER |= {"compute-spent", "open-bytes-spent"}


@pytest.mark.parametrize("kind", every_kind(), ids=lambda kind: kind.slug)
def test_every_problem_is_final_or_tried_again(kind: Any) -> None:
    error = problem(kind.status, kind.slug)
    assert may_succeed(error) == (kind.status >= 500 or kind.slug in LATER)
    driven = Driven(Service(**{"m:0": (kind.status, kind.slug)}))
    driven.add("m:0")
    driven.run(30.0)
    assert (driven.report().pending, driven.report().lost) == ((1, 0) if may_succeed(error) else (0, 1))


@pytest.mark.parametrize("error", [REFUSED, problem(401), problem(403), problem(404, "no-such-path"), problem(429)])
def test_a_refused_request_pauses_the_queue(error: Exception) -> None:
    driven = Driven(Service())
    driven.service.poison = dict.fromkeys(ids("m", 500), error)
    driven.add(*ids("m", 500))
    driven.run(30.0)
    assert len(driven.service.requests) <= 7 + 30 / 5
    assert all(each == ids("m", 200) for each in driven.service.requests)
    driven.service.poison.clear()
    driven.run(5.0)
    assert driven.service.found == ids("m", 500)
    assert (driven.report().lost, driven.report().last_error) == (0, None)


@pytest.mark.parametrize("waiting", [False, True])
def test_retry_after_is_respected(waiting: bool) -> None:
    for asked, waited in ((7.0, 7.0), (1e9, 60.0)):
        driven = Driven(Service())
        driven.service.poison = {"m:0": problem(429, "rate-limited", asked)}
        driven.add("m:0")
        driven.send()
        if waiting:
            with driven.box.hurried():
                assert driven.box.take() == []
        assert driven.box.take() == []
        assert driven.box.wait() == waited


@pytest.mark.parametrize("error", [problem(413), problem(422), problem(400, "invalid-json")])
def test_an_item_that_makes_requests_refused_is_given_up(error: Exception) -> None:
    driven = Driven(Service())
    driven.service.poison = {"m:100": error}
    driven.add(*ids("m", 200))
    driven.send()
    assert (driven.report().recorded, driven.report().refused, driven.report().pending) == (199, 1, 0)
    driven.add(*ids("n", 5000))
    driven.send()
    assert len(driven.service.requests) < 80
    assert len(driven.service.requests[-2]) == 200


@pytest.mark.parametrize(
    "error", [problem(500, "internal-error"), NoAnswerError("reset"), ValueError("strange"), problem(502)]
)
def test_an_item_that_makes_requests_fail_is_tried_alone(error: Exception) -> None:
    driven = Driven(Service())
    driven.service.poison = {"m:0": error, "m:1": error}
    driven.add(*ids("m", 1000))
    driven.run(1.0)
    assert driven.report().recorded == 998
    before = len(driven.service.requests)
    for n in range(1000, 1600):
        driven.add(f"m:{n}")
        driven.run(0.1)
        assert driven.report().last_error == str(error)
    assert driven.report().recorded == 1598
    assert all(each == ["m:0"] for each in driven.service.requests[before:] if "m:0" in each)
    assert len([each for each in driven.service.requests[before:] if "m:0" in each]) <= 7 + 60 / 5
    driven.service.poison.clear()
    driven.run(10.0)
    assert (driven.report().recorded, driven.report().pending) == (1600, 0)


@pytest.mark.parametrize("drop", ["oldest", "newest"])
def test_a_full_queue_drops_what_fails_first(drop: str) -> None:
    driven = Driven(Service(bad=CORRUPT), 100, 50, drop)
    for n in range(500):
        driven.add(f"bad:{n}")
        driven.run(0.01)
    for n in range(500):
        driven.add(f"good:{n}", f"bad:{n + 500}")
        driven.run(0.01)
    assert driven.report().recorded == 500
    assert driven.report().pending <= 100


@pytest.mark.parametrize("seed", range(20))
def test_a_full_queue_drops_the_oldest_of_all_models(seed: int) -> None:
    chance, clock = random.Random(seed), [0.0]
    waiting: list[str] = []
    sent: list[str] = []
    dropped: list[str] = []
    box = outbox(30, 5, "oldest", lambda item, _: dropped.append(str(item.prediction_id)), clock=clock)
    for n in range(1000):
        name = f"m{chance.randrange(12)}:{n}"
        expected = waiting[:1] if len(waiting) + len(sent) == 30 else []
        assert box.add(FeedbackItem(name, correct=True))
        box.call_back()
        assert dropped == expected
        dropped.clear()
        waiting = [*waiting[len(expected) :], name]
        if sent and chance.random() < 0.3:
            away = chance.random() < 0.5
            box.settle(REFUSED if away else [Feedback(each, "recorded") for each in sent])
            waiting = sorted([*waiting, *(sent if away else [])], key=lambda each: int(each.partition(":")[2]))
            sent = []
            clock[0] += 10.0
        elif not sent and chance.random() < 0.1:
            sent = [str(item.prediction_id) for item in box.take()]
            waiting = [each for each in waiting if each not in sent]


def test_a_full_queue_drops_first_from_the_model_of_which_most_failed() -> None:
    dropped: list[str] = []
    service = Service(few=CORRUPT, many=CORRUPT)
    driven = Driven(service, 12, 50, "oldest", lambda item, _: dropped.append(str(item.prediction_id)))
    driven.add(*ids("few", 2), *ids("many", 10))
    driven.send()
    driven.add(*ids("good", 8))
    driven.box.call_back()
    assert dropped == ids("many", 8)


@pytest.mark.parametrize("failure", [{}, {f"m{n}": CORRUPT for n in range(4000)}], ids=["new", "failed"])
def test_a_full_queue_costs_the_same_for_any_number_of_models(failure: dict[str, tuple[int, str]]) -> None:
    steps = []
    for models in (4, 4000):
        driven = Driven(Service(**failure), models)
        driven.add(*(f"m{n}:{n}" for n in range(models)))
        if failure:
            driven.send()
        driven.add("m0:first")  # the first one after a request may search
        steps.append(_steps(lambda: driven.add("m0:more", "m1:more", "new:more")))  # noqa: B023 - called at once
        assert driven.report().dropped == 4
    assert steps[1] < 1.5 * steps[0]


def _steps(work: Callable[[], None]) -> int:
    n, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal n
        frame.f_trace_opcodes = True
        n += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return n


def test_what_failed_has_its_turn() -> None:
    driven = Driven(Service(bad=CORRUPT))
    driven.add(*ids("bad", 10), *ids("good", 1000))
    for n in range(1000, 1075):
        driven.add(f"good:{n}")
        _taken(driven)
        driven.clock[0] += 0.1
        if n == 1050:
            driven.service.failing.clear()
            driven.add(*(f"busy:{i}" for i in range(8000)))
    assert set(ids("bad", 10)) <= set(driven.service.found)
    assert driven.report().pending > 0


def test_waiting_for_the_queue_begins_with_what_works() -> None:
    driven = Driven(Service(bad=AWAY))
    driven.add(*ids("bad", 10))
    driven.run(60.0)
    driven.add(*ids("good", 1000))
    before = len(driven.service.requests)
    with driven.box.hurried():
        driven.clock[0] += 1.0
        driven.send()
        assert [each[0].partition(":")[0] for each in driven.service.requests[before:]] == ["good"] * 5 + ["bad"]
        before = len(driven.service.requests)
        driven.run(2.0)
        assert 8 <= len(driven.service.requests) - before <= 12
    driven.run(20.0)
    before = len(driven.service.requests)
    driven.run(60.0)
    assert len(driven.service.requests) - before <= 13


@pytest.mark.parametrize(
    ("failure", "finished"),
    [(CORRUPT, True), ((409, "not-activated"), True), (AWAY, False), ((503, "newer-version"), False)],
)
def test_nobody_waits_for_damage(failure: tuple[int, str], finished: bool) -> None:
    driven = Driven(Service(bad=failure))
    driven.add(*ids("bad", 5000))
    driven.run(1.0)
    with driven.box.hurried():
        assert not driven.box.finished
        driven.run(1.0)
        assert driven.box.finished == finished
        driven.add("good:1")
        assert not driven.box.finished
        driven.send()
        assert driven.box.finished == finished
        driven.service.failing.clear()
        driven.clock[0] += driven.box.wait() or 0.0
        while driven.report().pending:
            driven.box.settle(driven.service.answer(driven.box.take()))
            assert driven.box.finished == (driven.report().pending == 0)


def damaged(request: httpx2.Request) -> httpx2.Response:
    found = [each.partition('"')[0] for each in request.content.decode().split('"prediction_id": "')[1:]]
    corrupt = {"type": "urn:wager:problem:store-corrupt", "title": "t", "status": 500, "detail": "d"}
    return httpx2.Response(200, json={"results": [corrupt if each < "c" else recorded(each) for each in found]})


@EACH_QUEUE
async def test_a_queue_closes_despite_damage(make: Any) -> None:
    started, queue = time.monotonic(), make(damaged)
    assert all(queue.put(each, correct=True) for each in [*ids("bad", 200), *ids("good", 50)])
    assert not await done(queue.flush(60.0))
    report = await done(queue.close(60.0))
    assert (report.recorded, report.dropped, report.pending) == (50, 200, 0)
    assert time.monotonic() - started < 10.0
