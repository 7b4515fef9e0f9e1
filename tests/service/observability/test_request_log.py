"""The laws of the request log: every request has an id; lines are JSON and private; left-out lines are counted."""

import json
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import Message, Receive, Scope, Send

from service.observability.telemetry import RequestLog, accepted_request_id, request_ids, trace_id
from service.request_context import RequestContext
from tests.service.pipelines import in_pipeline, scope_of
from tests.service.sample_models import definition
from tests.service.wager import serve
from tests.service.workers import worker

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"
ILL_FORMED = ["", "a b", "x" * 129, "a\nb", "é", "<script>", '"', "{}", "a;b"]


@pytest.mark.parametrize("given", ["a", "x" * 128, "01JD:7/=~+@_-.", TRACE])
def test_a_well_formed_id_is_kept(given: str) -> None:
    """An id of at most 128 letters, digits and permitted signs is kept."""
    assert accepted_request_id(given.encode()) == given


@pytest.mark.parametrize("given", ILL_FORMED)
def test_an_ill_formed_id_is_dropped(given: str) -> None:
    """A request id that could break a log line or a page is dropped."""
    assert accepted_request_id(given.encode()) is None


def test_generated_ids_differ_and_are_well_formed() -> None:
    """Generated ids differ within a process by number, and between processes by random prefix."""
    make, other = request_ids(b"0123456789"), request_ids(b"9876543210")
    made = [make() for _ in range(1000)] + [other() for _ in range(1000)]
    assert len(set(made)) == 2000
    assert all(accepted_request_id(one.encode()) == one for one in made)


@pytest.mark.parametrize(
    ("given", "trace"),
    [
        (TRACEPARENT, TRACE),
        (f"01-{TRACE}-b7ad6b7169203331-01-more", TRACE),
        (f"00-{TRACE}-b7ad6b7169203331-01-more", None),
        (f"ff-{TRACE}-b7ad6b7169203331-01", None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (TRACEPARENT.upper(), None),
        ("", None),
        ("00-abc", None),
    ],
)
def test_trace_ids_follow_the_standard(given: str, trace: str | None) -> None:
    """Trace ids follow W3C Trace Context, section 3.2: versions, lengths, and invalid all-zero ids."""
    assert trace_id(given.encode()) == trace


async def test_the_request_id_returns_in_answers_and_problems(store_url: str) -> None:
    """A given id returns with every answer, including errors from the framework and from limits."""
    async with worker(store_url, max_body_bytes=1024) as client:
        for method, path, body in (
            ("GET", "/livez", b""),
            ("GET", "/nowhere", b""),
            ("POST", "/predict", b"{"),
            ("POST", "/predict", b" " * 2000),
            ("GET", "/models/a%20b", b""),
        ):
            answer = await client.request(method, path, content=body, headers={"X-Request-ID": "mine-1"})
            assert answer.headers.get_list("x-request-id") == ["mine-1"], path
            if answer.status_code >= 400:
                assert answer.json()["request_id"] == "mine-1", path
        made = (await client.get("/livez", headers={"X-Request-ID": "not good"})).headers["x-request-id"]
        assert made != "not good"
        assert accepted_request_id(made.encode()) == made


async def test_a_failure_is_answered_with_its_id_and_logged(
    store_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error is answered with 500 and the request id, and logged even if the log's rate is 0."""
    async with worker(store_url, log_requests_per_second=0) as client:
        monkeypatch.setattr("service.registry.registry.Catalogue.page", None)  # so that calling it raises
        with caplog.at_level(logging.INFO):
            answer = await client.get("/models", headers={"X-Request-ID": "boom-1"})
            await client.get("/learners")
        assert (answer.status_code, answer.headers["x-request-id"]) == (500, "boom-1")
        assert answer.json()["request_id"] == "boom-1"
        lines = [record.__dict__ for record in caplog.records if record.name == "wager.requests"]
        assert [(line["status"], line["route"], line["levelname"]) for line in lines] == [(500, "/models", "ERROR")]


async def test_a_broken_off_answer_is_logged_as_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """An answer that fails after its head was sent is logged as 500, although the head said 200."""

    async def breaks_off(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(RuntimeError), caplog.at_level(logging.INFO):
        await in_pipeline(breaks_off)(scope_of("GET", "/x", []), receive, send)
    (start,) = sent
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert (b"x-request-id", b"made-1") in start["headers"]
    assert [record.__dict__["status"] for record in caplog.records] == [500]


def test_every_request_is_logged_or_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Lines and left-out requests add up; answers and refusals have separate quotas, and failures are always logged."""
    log, notes, statuses = RequestLog(3), RequestContext("id"), [200] * 10 + [404] * 5 + [503] * 6
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            for status in statuses:
                if log.may_write(status):
                    log.write("GET", "/x", status, 0.001, notes)
            log.tick()
        log.tick()
    lines = [record.__dict__ for record in caplog.records]
    for status, expected in ((200, 6), (404, 6), (503, 12)):
        assert sum(line.get("status") == status for line in lines) == expected
    assert [line["count"] for line in lines if line["msg"] == "requests left out"] == [7 + 2, 7 + 2]


def lines_of(log: Path) -> list[dict[str, Any]]:
    """Return the parsed log lines of a service, without its start-up announcement."""
    announced = ("API  ", "API docs", "Data  ")
    return [json.loads(line) for line in log.read_text().splitlines() if not line.startswith(announced)]


def test_a_service_writes_json_and_no_secrets(tmp_path: Path) -> None:
    """Every line is JSON with the expected fields; no client's context, query, key or header is logged."""
    secret = "hunter2-hunter2"
    key = f"wk_{'0' * 12}_{'5ec7e7' * 10}0000"
    headers = {"Authorization": f"Bearer {key}", "X-API-Key": key, "Cookie": secret, "traceparent": TRACEPARENT}
    with serve(tmp_path, WAGER_LOG_REQUESTS_PER_SECOND="1000") as wager:
        with httpx2.Client(base_url=wager.url, headers=headers) as client:
            client.post("/models", json=definition("m"))
            body = {"model": "m", "context": [0.123456789, 0.2, 0.3]}
            client.post("/predict", json=body, headers={"X-Request-ID": "find-me"})
            client.post("/predict", json={"model": "m", "context": [0.123456789, secret]})
            client.get(f"/models/{secret}")
            client.get(f"/models/{secret}%20", params={"token": secret})
            client.get(f"/{secret}")
            client.get(f"/models/{secret}%20")
            client.get("/livez")
        wager.stop()
    text = (tmp_path / "wager.log").read_text()
    assert "0.123456789" not in text
    assert "5ec7e7" not in text
    assert text.count(secret) == 1  # as the name of a model that the test requested
    lines = [line for line in lines_of(tmp_path / "wager.log") if line["logger"] == "wager.requests"]
    (found,) = [line for line in lines if line["request_id"] == "find-me"]
    expected = {"event": "request", "level": "info", "method": "POST", "route": "/predict", "status": 200}
    assert found.items() >= (expected | {"model": "m", "trace_id": TRACE}).items()
    assert 0 < found["seconds"] < 60
    assert found["time"].endswith("Z")
    assert {(line["route"], line["status"]) for line in lines} == {
        ("/models", 201),
        ("/predict", 200),
        ("/predict", 422),
        ("/models/{name}", 400),
        ("/models/{name}", 404),
        ("/models/{name}", 422),
        ("", 404),
    }


def test_the_console_format_writes_text(tmp_path: Path) -> None:
    """`WAGER_LOG_FORMAT=console` writes text instead of JSON."""
    with serve(tmp_path, WAGER_LOG_FORMAT="console") as wager:
        httpx2.get(f"{wager.url}/learners", headers={"X-Request-ID": "find-me"})
        wager.stop()
    (line,) = [line for line in (tmp_path / "wager.log").read_text().splitlines() if "find-me" in line]
    assert "route=/learners" in line
    assert not line.startswith("{")
