"""The laws of logs and traces: ids, one private line for each request, counted omissions, and spans of the caller."""

import io
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from service.api.middleware.observer import SECURITY_HEADERS
from service.observability.log_format import console_formatter, json_formatter
from service.observability.telemetry import RequestLog, accepted_request_id, is_on, request_ids, trace_id
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
    assert accepted_request_id(given.encode()) == given


@pytest.mark.parametrize("given", ILL_FORMED)
def test_an_ill_formed_id_is_dropped(given: str) -> None:
    assert accepted_request_id(given.encode()) is None


def test_generated_ids_differ_and_are_well_formed() -> None:
    make, other = request_ids(b"0123456789"), request_ids(b"9876543210")
    made = [make() for _ in range(1000)] + [other() for _ in range(1000)]
    assert len(set(made)) == 2000
    assert all(accepted_request_id(one.encode()) == one for one in made)


@pytest.mark.parametrize(("given", "trace"), [
    (TRACEPARENT, TRACE), (f"01-{TRACE}-b7ad6b7169203331-01-more", TRACE),
    (f"00-{TRACE}-b7ad6b7169203331-01-more", None), (f"ff-{TRACE}-b7ad6b7169203331-01", None),
    (f"00-{'0' * 32}-b7ad6b7169203331-01", None), (f"00-{TRACE}-{'0' * 16}-01", None), (TRACEPARENT.upper(), None),
    ("", None), ("00-abc", None),
])  # fmt: skip
def test_trace_ids_follow_the_standard(given: str, trace: str | None) -> None:
    assert trace_id(given.encode()) == trace


async def test_the_request_id_returns_in_answers_and_problems(store_url: str) -> None:
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
    async with worker(store_url, log_requests_per_second=0) as client:
        monkeypatch.setattr("service.registry.catalogue.Catalogue.page", None)  # so that calling it raises
        with caplog.at_level(logging.INFO):
            answer = await client.get("/models", headers={"X-Request-ID": "boom-1"})
            await client.get("/learners")
        assert (answer.status_code, answer.headers["x-request-id"]) == (500, "boom-1")
        assert answer.json()["request_id"] == "boom-1"
        assert answer.headers.items() >= {name.lower(): value for name, value in SECURITY_HEADERS.items()}.items()
        lines = [record.__dict__ for record in caplog.records if record.name == "wager.requests"]
        assert [(line["status"], line["route"], line["levelname"]) for line in lines] == [(500, "/models", "ERROR")]


async def test_a_broken_off_answer_is_logged_as_a_failure(caplog: pytest.LogCaptureFixture) -> None:
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
    announced = ("API  ", "API docs", "Data  ")
    return [json.loads(line) for line in log.read_text().splitlines() if not line.startswith(announced)]


def test_a_service_writes_json_and_no_secrets(tmp_path: Path) -> None:
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


CALLER, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_tracing_is_off_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    assert not is_on()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    assert is_on()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not is_on()


@contextmanager
def collector(decode: Any) -> Iterator[tuple[str, list[Any]]]:
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = decode(self.rfile.read(int(self.headers["content-length"])))
            found = [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
            spans.extend(found)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", spans
        finally:
            server.shutdown()
            thread.join()


def test_a_prediction_is_a_span_of_its_callers_trace(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the group otel is not installed")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415

    with (
        collector(ExportTraceServiceRequest.FromString) as (url, spans),
        serve(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_BSP_SCHEDULE_DELAY="50") as wager,
    ):
        httpx2.post(f"{wager.url}/models", json=definition("m"))
        headers = {"traceparent": f"00-{CALLER}-{PARENT}-01"}
        body = {"model": "m", "context": [0.6, 0.8, 0.0]}
        assert httpx2.post(f"{wager.url}/predict", json=body, headers=headers).status_code == 200
        httpx2.get(f"{wager.url}/livez")
        wager.stop()
    ours = {span.name: span for span in spans if span.trace_id.hex() == CALLER}
    request, call = ours["POST /predict"], ours["store add_predictions"]
    assert request.parent_span_id.hex() == PARENT
    assert call.parent_span_id == request.span_id
    attributes = {attribute.key: attribute.value.string_value for attribute in call.attributes}
    assert attributes["wager.model"] == "m"
    assert not any("livez" in span.name or "readyz" in span.name for span in spans)
    assert '"trace_id": "' + CALLER in (tmp_path / "wager.log").read_text()


FORMATS = {"json": json_formatter, "console": console_formatter}
FORGED = "2026-01-01T00:00:00Z [info     ] request"
HOSTILE = {
    "a line": f"x\n{FORGED}", "a line of JSON": 'x\r\n{"event": "request"}', "colours": "x\x1b[2J\x1b[31m",
    "a title of the window": "x\x1b]0;owned\x07", "C1 controls": "x\x9b31m\x85",
    "other ends of lines": "x\u2028y\u2029z\x0b\x0c", "right to left": "x\u202egnp.exe", "a zero": "x\x00y",
    "a surrogate": "x\ud800y", "very long": "x" * 50_000,
}  # fmt: skip
INVALID = b"x\xff\xfe\xc3(\n\x1b[2J"
each_format = pytest.mark.parametrize("formatter", FORMATS.values(), ids=FORMATS)


@contextmanager
def logged(formatter: Callable[[], logging.Formatter]) -> Iterator[io.StringIO]:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(formatter())
    root = logging.getLogger()
    level, others = root.level, root.handlers
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    try:
        yield text
    finally:
        root.handlers = others
        root.setLevel(level)


def check_plain(text: str) -> list[str]:
    assert text.endswith("\n")
    lines = text.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines)
    return lines


async def call(app: Any, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> int:
    sent: list[Any] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": quote(path.encode(errors="surrogatepass")).encode(),
        "query_string": quote(path.encode(errors="surrogatepass")).encode(),
        "root_path": "",
        "scheme": "http",
        "server": ("worker", 80),
        "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost"), (b"content-length", b"%d" % len(body)), *headers],
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


def places(text: str) -> list[tuple[str, str, list[tuple[bytes, bytes]], bytes]]:
    raw = INVALID + text.encode(errors="surrogatepass")
    ours = [(b"content-type", b"application/json")]
    names = ["x-request-id", "traceparent", "x-api-key", "user-agent", "x-forwarded-for", "content-type", "if-match"]
    bodies = [{"model": text, "context": [1]}, {"model": "m", "context": [0.5] * 3, "prediction_id": text}, {text: 1}]
    return [
        (text, "/models/m", [], b""),
        *((method, f"/models/{text}", [], b"") for method in ("GET", "PUT", "DELETE", "PATCH", "TRACE")),
        ("POST", f"/models/{text}/rounds", [(b"content-type", b"text/plain")], b"{}"),
        ("DELETE", f"/models/m/snapshots/{text}", [], b""),
        ("PUT", f"/models/m/shadows/{text}", ours, b"{}"),
        ("GET", f"/{text}", [], b""),
        *(("GET", "/models/m", [(name.encode(), raw)], b"") for name in names),
        *(("POST", "/predict", ours, json.dumps(body).encode()) for body in bodies),
        ("POST", "/predict", ours, b'{"model": "' + raw + b'"}'),
        ("POST", "/feedback", ours, json.dumps({"prediction_id": f"m:{text}", "correct": True}).encode()),
        ("POST", "/models", ours, json.dumps(definition(text, labels=[text, "b"])).encode()),
    ]


@each_format
async def test_a_hostile_request_is_one_plain_line(store_url: str, formatter: Callable[[], logging.Formatter]) -> None:
    async with worker(store_url, log_requests_per_second=10_000) as client:
        app = client._transport.app  # type: ignore[attr-defined]
        await client.post("/models", json=definition("m"))
        for what, text in HOSTILE.items():
            for method, path, headers, body in places(text):
                with logged(formatter) as log:
                    status = await call(app, method, path, headers, body)
                lines = check_plain(log.getvalue())
                assert len(lines) == 1, (what, method[:20], path[:40], lines)
                assert len(lines[0]) < 600, (what, method[:20], path[:40])
                assert str(status) in lines[0]
                assert "gnp.exe" not in lines[0]
                assert FORGED not in lines[0]
        await client.delete("/models/m")


@each_format
@settings(deadline=None, derandomize=True, max_examples=200)
@given(event=st.text(st.characters()), value=st.text(st.characters()), where=st.sampled_from(["text", "field"]))
def test_any_text_is_one_plain_line(
    formatter: Callable[[], logging.Formatter], event: str, value: str, where: str
) -> None:
    with logged(formatter) as log:
        if where == "text":
            logging.getLogger("test").warning("model %s: %s", event, value)
        else:
            logging.getLogger("test").warning("event", extra={"model": value, "of": event})
    (line,) = check_plain(log.getvalue())
    if formatter is json_formatter:
        assert json.loads(line)["logger"] == "test"


@each_format
def test_a_long_text_is_shortened(formatter: Callable[[], logging.Formatter]) -> None:
    with logged(formatter) as log:
        logging.getLogger("test").warning("%s", "x" * 50_000, extra={"model": "y" * 50_000})
    (line,) = check_plain(log.getvalue())
    assert len(line) < 15_000


@each_format
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_no_message_of_an_error_looks_like_an_event(formatter: Callable[[], logging.Formatter], hostile: str) -> None:
    with logged(formatter) as log:
        try:
            raise ValueError(hostile)
        except ValueError:
            logging.getLogger("test").exception("failed")
    first, *others = check_plain(log.getvalue())
    assert "failed" in first
    assert all(line.startswith("  ") for line in others)
    assert bool(others) == (formatter is console_formatter)
