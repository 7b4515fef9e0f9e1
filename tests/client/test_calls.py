"""The laws of calls: what is sent, what is read, and what a failure becomes."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import httpx
import httpx2
import numpy as np
import pytest

from tests.client.doubles import PREDICTION, Reply, Scripted, async_client_of, client_of, predicted, problem, recorded
from wager_client import (
    AsyncWager,
    DeadlineError,
    FeedbackItem,
    InvalidInputError,
    NoAnswerError,
    ProblemError,
    ServerError,
    UnexpectedAnswerError,
    Wager,
    WagerError,
    problems,
)
from wager_client.errors import problem_of
from wager_client.sending import LONGEST_ATTEMPT, LONGEST_WAIT, Attempts, Options, RemainingTime


def test_every_attempt_has_the_same_id() -> None:
    service = Scripted(httpx2.ReadError("reset"), problem(503, "store-unavailable"), predicted)
    client = client_of(service)
    assert client.predict("m", {"x": 1}).label == "a"
    first, second, third = service.bodies
    assert first == second == third
    assert len(first["prediction_id"]) == 32
    assert client.counts.retries == 2
    client.predict("m", {"x": 1})
    assert service.bodies[3]["prediction_id"] != first["prediction_id"]


def test_only_what_is_given_is_sent() -> None:
    service = Scripted(predicted)
    client_of(service, api_key="wk_1").predict("m", prediction_id="p", eligible=("a", "b"), activated=False)
    assert service.bodies == [{"model": "m", "prediction_id": "p", "eligible": ["a", "b"], "activated": False}]
    assert service.requests[0].headers["authorization"] == "Bearer wk_1"


def test_answers_of_newer_services_are_read() -> None:
    prediction = client_of(Scripted(predicted)).predict("m", prediction_id="p")
    assert (prediction.prediction_id, prediction.propensity, prediction.raw["new_field"]) == ("m:p", 0.5, 7)
    assert prediction.expires_at is not None
    assert prediction.expires_at.year == 2027


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"prediction_id": 3, "model": "m"}'])
def test_answers_that_cannot_be_read_are_errors(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswerError):
        client_of(Scripted(httpx2.Response(200, content=body))).predict("m")


def _ok(body: Any) -> httpx2.Response:
    return httpx2.Response(200, json=body)


OF_ANOTHER: list[tuple[str, tuple[Any, ...], dict[str, Any], Reply]] = [
    ("predict", ("m",), {"prediction_id": "q", "default": "b"}, _ok(PREDICTION)),
    ("predict", ("m",), {"prediction_id": "n:p"}, _ok(PREDICTION)),
    ("predict", ("m",), {}, _ok(PREDICTION)),
    (
        "predict_batch",
        ("m", [{"prediction_id": "p"}, {"prediction_id": "q"}]),
        {},
        _ok({"predictions": [PREDICTION] * 2}),
    ),
    ("feedback", ("m:q",), {"correct": True}, _ok(recorded("m:p"))),
    ("feedback_batch", ([FeedbackItem("m:q"), FeedbackItem("m:p")],), {}, _ok({"results": [recorded("m:p")] * 2})),
    ("activate", ("m:q",), {}, _ok({"prediction_id": "m:p", "status": "activated"})),
]


@pytest.mark.parametrize(("name", "arguments", "options", "reply"), OF_ANOTHER)
async def test_the_answer_for_another_prediction_is_refused(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], reply: Reply
) -> None:
    with pytest.raises(UnexpectedAnswerError, match="the answer is for 'm:p'; the request was for "):
        getattr(client_of(Scripted(reply)), name)(*arguments, **options)
    with pytest.raises(UnexpectedAnswerError, match="the answer is for 'm:p'; the request was for "):
        await getattr(async_client_of(Scripted(reply)), name)(*arguments, **options)


@pytest.mark.parametrize("model", ["m", " no name of a model é\n"])
def test_a_header_names_the_model_of_a_body(model: str) -> None:
    """The load balancer finds it there, however long the body is."""
    service = Scripted(problem(422, "wrong-type"))
    client = client_of(service)
    for name, arguments, options in (
        ("predict", (model,), {}),
        ("predict_batch", (model, [{"context": {}}]), {}),
        ("feedback", (f"{model}:p",), {"correct": True}),
        ("feedback_batch", ([FeedbackItem(f"{model}:p", True)],), {}),
        ("activate", (f"{model}:p",), {}),
    ):
        with pytest.raises(ProblemError):
            getattr(client, name)(*arguments, **options)
    assert [unquote(request.headers["wager-model"]) for request in service.requests] == [model] * 5


def test_arrays_are_sent_as_lists() -> None:
    service, numbers = Scripted(_ok(PREDICTION)), np.array([0.1, 0.25], np.float32)
    client = client_of(service)
    actions = [{"id": "a", "features": {"look": numbers}}]
    client.predict("m", {"text": numbers, "age": np.int64(3)}, actions=actions, prediction_id="p")
    (sent,) = service.bodies
    assert sent["context"] == {"text": numbers.tolist(), "age": 3}
    assert np.array(sent["actions"][0]["features"]["look"], np.float32).tobytes() == numbers.tobytes()
    for wrong, error in ((np.array([np.nan]), ValueError), (object(), TypeError)):
        with pytest.raises(error):
            client.predict("m", {"text": wrong})


def test_a_batch_has_a_result_for_each_item() -> None:
    refused = {"type": "urn:wager:problem:wrong-feature-type", "title": "t", "status": 422, "detail": "d"}
    answer = httpx2.Response(200, json={"predictions": [PREDICTION, refused]})
    first, second = client_of(Scripted(answer)).predict_batch("m", [{"prediction_id": "p"}, {"context": 3}])
    assert not isinstance(first, ProblemError)
    assert isinstance(second, problems.WrongFeatureTypeError)
    (own,) = client_of(Scripted(predicted)).predict_batch("m", [{"prediction_id": None}])
    assert not isinstance(own, ProblemError)
    assert len(str(own.prediction_id)) == len("m:") + 32
    with pytest.raises(UnexpectedAnswerError, match="2 predictions for 1 items"):
        client_of(Scripted(answer)).predict_batch("m", [{}])


def test_a_problem_has_its_class() -> None:
    for answer, kind in [
        (problem(422, "unknown-label"), problems.UnknownLabelError),
        (problem(422, "new-in-a-later-version"), InvalidInputError),
        (httpx2.Response(502, content=b"<html>Bad gateway"), ServerError),
        (httpx2.Response(418, content=b"null"), ProblemError),
    ]:
        with pytest.raises(ProblemError) as caught:
            client_of(Scripted(answer), max_retries=0).predict("m")
        assert type(caught.value) is kind
        assert caught.value.status == answer.status_code
    with pytest.raises(problems.UnknownLabelError, match="422 unknown-label: d") as found:
        client_of(Scripted(problem(422, "unknown-label"))).predict("m")
    assert (found.value.slug, found.value.field, found.value.detail) == ("unknown-label", "f", "d")


@pytest.mark.parametrize("reply", [httpx2.ConnectError("no"), httpx2.ReadTimeout("slow"), problem(503, "too-busy")])
def test_the_default_answers_while_the_service_is_away(reply: httpx2.Response | Exception) -> None:
    service = Scripted(reply)
    client = client_of(service, max_retries=1)
    prediction = client.predict("m", default="b")
    assert (prediction.label, prediction.is_default) == ("b", True)
    assert (prediction.prediction_id, prediction.propensity) == (None, None)
    sent = len(service.requests)
    assert client.feedback(prediction, correct=True).status == "ignored"
    assert client.activate(prediction).status == "ignored"
    assert len(service.requests) == sent
    assert (client.counts.defaults, client.counts.ignored) == (1, 2)
    with pytest.raises((NoAnswerError, ServerError)):
        client.predict("m")


def test_a_default_has_slots_with_top() -> None:
    prediction = client_of(Scripted(httpx2.ConnectError("no"))).predict("m", top=2, default=["b", "a"])
    assert prediction.slots is not None
    assert [(slot.label, slot.prediction_id, slot.is_default) for slot in prediction.slots] == [
        ("b", None, True),
        ("a", None, True),
    ]


@pytest.mark.parametrize("slug", ["unknown-label", "invalid-api-key", "model-not-found"])
def test_a_refusal_is_no_outage(slug: str) -> None:
    status = {"unknown-label": 422, "invalid-api-key": 401, "model-not-found": 404}[slug]
    with pytest.raises(ProblemError):
        client_of(Scripted(problem(status, slug))).predict("m", default="b")


def test_creation_and_deletion_are_not_repeated() -> None:
    service = Scripted(httpx2.ReadError("reset"))
    client = client_of(service)
    with pytest.raises(NoAnswerError):
        client.create_model("m", labels=["a", "b"])
    with pytest.raises(NoAnswerError):
        client.delete_model("m")
    assert len(service.requests) == 2


def test_numbers_that_json_lacks_are_refused_here() -> None:
    service = Scripted(predicted)
    for given in ({"context": {"x": float("nan")}}, {"cost_weight": float("inf")}, {"costs": {"a": float("nan")}}):
        with pytest.raises(ValueError, match="JSON"):
            client_of(service).predict("m", **given)
    assert service.requests == []


@pytest.fixture
def dripping() -> Iterator[str]:
    done = threading.Event()

    def serve(listener: socket.socket) -> None:
        listener.settimeout(0.02)  # the client may never connect
        while not done.is_set():
            with contextlib.suppress(OSError):  # the client may also leave
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(5.0)
                    connection.recv(2**16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                    while not done.wait(0.02):
                        connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        done.set()
        thread.join()


def test_the_deadline_holds_for_the_whole_call(dripping: str) -> None:
    with httpx2.Client(verify=False) as http:
        started = time.monotonic()
        with pytest.raises(DeadlineError, match=r"within 0\.3 s"):
            Wager(dripping, timeout=0.3, http_client=http).health()
        assert 0.25 < time.monotonic() - started < 5.0


async def test_the_deadline_holds_with_asyncio(dripping: str) -> None:
    async with httpx2.AsyncClient(verify=False) as http:
        with pytest.raises(DeadlineError, match=r"within 0\.3 s"):
            await AsyncWager(dripping, timeout=0.3, http_client=http).health()


def test_httpx_is_accepted() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/readyz":
            raise httpx.ConnectError("no")
        return httpx.Response(
            200, json=PREDICTION | {"prediction_id": f"m:{json.loads(request.content)['prediction_id']}"}
        )

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        client = Wager("http://wager", http_client=http, backoff=0.0)
        assert client.predict("m").label == "a"
        with pytest.raises(NoAnswerError):
            client.health()
        client.close()
        assert not http.is_closed

    async def both() -> str | None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as asynchronous:
            return (await AsyncWager("http://wager", http_client=asynchronous).predict("m")).label

    assert asyncio.run(both()) == "a"


def test_options_change_without_new_connections() -> None:
    service = Scripted(httpx2.ConnectError("no"))
    client = client_of(service, max_retries=0)
    other = client.with_options(max_retries=3, api_key="wk_2")
    for each, requests in ((client, 1), (other, 5)):
        with pytest.raises(NoAnswerError):
            each.health()
        assert len(service.requests) == requests
    assert client.counts.retries == 3
    assert [r.headers.get("authorization") for r in service.requests] == [None, *["Bearer wk_2"] * 4]


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAGER_BASE_URL", "http://elsewhere/")
    monkeypatch.setenv("WAGER_API_KEY", "wk_3")
    service = Scripted(predicted)
    Wager(http_client=httpx2.Client(transport=httpx2.MockTransport(service))).predict("m")
    assert str(service.requests[0].url) == "http://elsewhere/predict"
    assert service.requests[0].headers["authorization"] == "Bearer wk_3"


def test_a_batch_of_feedback_takes_objects_predictions_and_default_answers() -> None:
    answer = {"results": [recorded("m:p"), recorded("m:q")]}
    service = Scripted(httpx2.Response(200, json=answer))
    client = client_of(service)
    made = client_of(Scripted(predicted)).predict("m", prediction_id="p")
    first, ignored, last = client.feedback_batch(
        [{"prediction_id": made, "correct": True}, FeedbackItem(None), FeedbackItem("m:q", reward=0.5)]
    )
    assert service.bodies[0] == {
        "feedback": [{"prediction_id": made.prediction_id, "correct": True}, {"prediction_id": "m:q", "reward": 0.5}]
    }
    assert [each.status for each in (first, ignored, last)] == ["recorded", "ignored", "recorded"]
    assert client.counts.ignored == 1
    assert [each.status for each in client.feedback_batch([FeedbackItem(None)])] == ["ignored"]
    assert len(service.requests) == 1


def test_any_other_request_of_the_service_can_be_sent() -> None:
    answers = [
        problem(503, "store-unavailable"),
        httpx2.Response(200, json={"verdict": "leaning"}),
        httpx2.Response(200, content=b"\x00", headers={"Content-Type": "application/octet-stream"}),
        httpx2.Response(204),
        problem(500, "internal"),
    ]
    service = Scripted(*answers)
    client = client_of(service)
    assert client.request("GET", "/models/m/statistics", params={"limit": 3}) == {"verdict": "leaning"}
    assert str(service.requests[1].url).endswith("/models/m/statistics?limit=3")
    assert client.request("GET", "/models/m/export") == b"\x00"
    assert client.request("DELETE", "/models/m/shadows/s") is None
    with pytest.raises(ProblemError):
        client.request("post", "/models/m/promote", {"shadow": "s"}, headers={"If-Match": "*"})
    assert json.loads(service.requests[-1].content) == {"shadow": "s"}
    assert (service.requests[-1].method, service.requests[-1].headers["if-match"]) == ("POST", "*")
    assert len(service.requests) == len(answers)
    with pytest.raises(ValueError, match="begin with a slash"):
        client.request("GET", "models/m")


AWAY = NoAnswerError("away")


def attempts(
    *, repeatable: bool = True, quick: bool = False, clock: list[float] | None = None, **more: Any
) -> Attempts:
    now, given = clock or [0.0], {"timeout": 100.0, "max_retries": 3, "backoff": 0.1} | more
    return Attempts(Options("http://w", None, **given), repeatable, quick, lambda: now[0], lambda: 0.5)


@pytest.mark.parametrize("timeout", [1e-300, 10.0, 1e300])
def test_a_socket_takes_every_timeout(timeout: float) -> None:
    with socket.socket() as each:
        each.settimeout(RemainingTime(attempts(timeout=timeout))["read"])


def test_waits_double_up_to_a_limit() -> None:
    tried = attempts(max_retries=10)
    waits = [tried.wait_after(AWAY) for _ in range(10)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[LONGEST_WAIT] * 4])


def test_no_attempt_begins_after_the_deadline() -> None:
    clock = [0.0]
    tried = attempts(timeout=0.25, clock=clock)
    assert tried.wait_after(AWAY) == pytest.approx(0.1)
    clock[0] = 0.1
    with pytest.raises(NoAnswerError):
        tried.wait_after(AWAY)


def test_retry_after_is_a_lower_bound() -> None:
    assert attempts().wait_after(problem_of(429, {}, retry_after=7.0)) == 7.0
    assert attempts().wait_after(problem_of(503, {}, retry_after=0.0)) == pytest.approx(0.1)
    with pytest.raises(ProblemError):
        attempts(timeout=5.0).wait_after(problem_of(503, {}, retry_after=7.0))


@pytest.mark.parametrize(
    ("error", "safe", "unsafe"),
    [
        (NoAnswerError("lost"), True, False),
        (NoAnswerError("not connected", maybe_done=False), True, True),
        (problem_of(429, {"type": "urn:wager:problem:rate-limited"}), True, True),
        (problem_of(503, {"type": "urn:wager:problem:too-busy"}), True, True),
        (problem_of(503, {"type": "urn:wager:problem:store-unavailable"}), True, False),
        (problem_of(502, {}), True, False),
        (problem_of(408, {}), True, True),
        (problem_of(422, {}), False, False),
        (problem_of(404, {}), False, False),
        (problem_of(409, {}), False, False),
        (problem_of(501, {}), False, False),
    ],
)
def test_only_what_may_help_and_cannot_harm_is_repeated(error: WagerError, safe: bool, unsafe: bool) -> None:
    for repeatable, expected in ((True, safe), (False, unsafe)):
        try:
            attempts(repeatable=repeatable).wait_after(error)
            repeated = True
        except WagerError:
            repeated = False
        assert repeated == expected


def test_timeouts_shrink_with_the_time_left() -> None:
    clock = [0.0]
    times = RemainingTime(attempts(timeout=2.0, clock=clock))
    assert dict(times) == dict.fromkeys(("connect", "read", "write", "pool"), 2.0)
    clock[0] = 1.5
    assert times["read"] == 0.5
    clock[0] = 3.0
    assert times["read"] > 0


@pytest.mark.parametrize(
    ("timeout", "ends"), [(8.0, [4.0, 6.0, 7.0, 8.0]), (60.0, [LONGEST_ATTEMPT, 2 * LONGEST_ATTEMPT, 60.0])]
)
def test_an_attempt_that_hangs_leaves_time_for_the_next(timeout: float, ends: list[float]) -> None:
    clock = [0.0]
    tried, found = attempts(timeout=timeout, max_retries=len(ends) - 1, quick=True, clock=clock), []
    for _ in ends:
        tried.begin()
        clock[0] += tried.attempt_left()
        found.append(clock[0])
        error = tried.timeout_error()
        tried.failed += 1
    assert found == ends
    assert isinstance(error, DeadlineError)


@pytest.mark.parametrize("options", [{"repeatable": False, "quick": True}, {"quick": False}, {"max_retries": 0}])
def test_an_attempt_that_is_the_only_one_has_all_the_time(options: dict[str, Any]) -> None:
    tried = attempts(timeout=8.0, **{"quick": True} | options)
    tried.begin()
    assert tried.attempt_left() == 8.0
    assert isinstance(tried.timeout_error(), DeadlineError)
