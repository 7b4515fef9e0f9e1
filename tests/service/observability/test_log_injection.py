"""The laws of hostile texts in logs: one request is one line, without characters that a client could misuse."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.observability.log_format import console_formatter, json_formatter
from tests.service.sample_models import definition
from tests.service.workers import worker

FORMATS = {"json": json_formatter, "console": console_formatter}
FORGED = "2026-01-01T00:00:00Z [info     ] request"
HOSTILE = {
    "a line": f"x\n{FORGED}",
    "a line of JSON": 'x\r\n{"event": "request"}',
    "colours": "x\x1b[2J\x1b[31m",
    "a title of the window": "x\x1b]0;owned\x07",
    "C1 controls": "x\x9b31m\x85",
    "other ends of lines": "x\u2028y\u2029z\x0b\x0c",
    "right to left": "x\u202egnp.exe",
    "a zero": "x\x00y",
    "a surrogate": "x\ud800y",
    "very long": "x" * 50_000,
}
INVALID = b"x\xff\xfe\xc3(\n\x1b[2J"
each_format = pytest.mark.parametrize("formatter", FORMATS.values(), ids=FORMATS)


@contextmanager
def logged(formatter: Callable[[], logging.Formatter]) -> Iterator[io.StringIO]:
    """Write everything that is logged to a text, and nowhere else: pytest cannot send surrogates in its reports."""
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
    """Check that a log has no characters but printable ones and ends of lines; return its lines."""
    assert text.endswith("\n")
    lines = text.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines)
    return lines


async def call(app: Any, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> int:
    """Send a request with any bytes in its head, as no client would; return the status."""
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
    """Return requests with the text as method, path, name, id, header and in bodies."""
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
    """Whatever a request contains, and wherever, it adds one short line, without its control characters."""
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
    """An event with any text in it, and any text in a field, is one line of printable characters."""
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
    """Of a text of any length, only the beginning is written."""
    with logged(formatter) as log:
        logging.getLogger("test").warning("%s", "x" * 50_000, extra={"model": "y" * 50_000})
    (line,) = check_plain(log.getvalue())
    assert len(line) < 15_000


@each_format
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_no_message_of_an_error_looks_like_an_event(formatter: Callable[[], logging.Formatter], hostile: str) -> None:
    """In text, all lines of a traceback are indented, and as plain as the others; in JSON it is one line."""
    with logged(formatter) as log:
        try:
            raise ValueError(hostile)
        except ValueError:
            logging.getLogger("test").exception("failed")
    first, *others = check_plain(log.getvalue())
    assert "failed" in first
    assert all(line.startswith("  ") for line in others)
    assert bool(others) == (formatter is console_formatter)
