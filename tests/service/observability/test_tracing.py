"""The laws of traces: off by default; if enabled, a request's spans belong to its caller's trace."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.observability.telemetry import is_on
from tests.service.sample_models import definition
from tests.service.wager import serve

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_tracing_is_off_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """An OTLP endpoint enables tracing, and OpenTelemetry's own switch disables it."""
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    assert not is_on()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    assert is_on()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not is_on()


@contextmanager
def collector(decode: Any) -> Iterator[tuple[str, list[Any]]]:
    """Run an OpenTelemetry collector; yield its address and the list of received spans."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = decode(self.rfile.read(int(self.headers["content-length"])))
            found = [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
            spans.extend(found)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
            """Suppress the server's access log."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", spans
        finally:
            server.shutdown()
            thread.join()


def test_a_prediction_is_a_span_of_its_callers_trace(tmp_path: Path) -> None:
    """The request's span is a child of the caller's, and the store's span of the request's; health checks have none."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the group otel is not installed")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415

    with (
        collector(ExportTraceServiceRequest.FromString) as (url, spans),
        serve(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_BSP_SCHEDULE_DELAY="50") as wager,
    ):
        httpx2.post(f"{wager.url}/models", json=definition("m"))
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        body = {"model": "m", "context": [0.6, 0.8, 0.0]}
        assert httpx2.post(f"{wager.url}/predict", json=body, headers=headers).status_code == 200
        httpx2.get(f"{wager.url}/livez")
        wager.stop()
    ours = {span.name: span for span in spans if span.trace_id.hex() == TRACE}
    request, call = ours["POST /predict"], ours["store add_predictions"]
    assert request.parent_span_id.hex() == PARENT
    assert call.parent_span_id == request.span_id
    attributes = {attribute.key: attribute.value.string_value for attribute in call.attributes}
    assert attributes["wager.model"] == "m"
    assert not any("livez" in span.name or "readyz" in span.name for span in spans)
    assert '"trace_id": "' + TRACE in (tmp_path / "wager.log").read_text()
