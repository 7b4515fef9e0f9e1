"""The laws of the balancer, with HAProxy itself and workers that only tell their names."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from benchmarks.balancer import balancing
from tests.docker.test_containers import tool

MODELS = [f"model-{i}" for i in range(24)]
NAMING: dict[str, Any] = {
    "body": lambda name: ("POST", "/predict", {"context": [1.0], "model": name}, {}),
    "batch": lambda name: ("POST", "/predict/batch", {"model": name, "contexts": [[1.0]]}, {}),
    "feedback": lambda name: ("POST", "/feedback", {"prediction_id": f"{name}:~a:1", "correct": True}, {}),
    "feedback batch": lambda name: (
        "POST",
        "/feedback/batch",
        {"feedback": [{"prediction_id": f"{name}:~a", "correct": True}, {"prediction_id": "other:~b"}]},
        {},
    ),
    "path": lambda name: ("GET", f"/models/{name}", None, {}),
    "longer path of version 1": lambda name: ("GET", f"/v1/models/{name}/rounds", None, {}),
    "first in a long body": lambda name: ("POST", "/predict", {"model": name, "context": {"text": [0.5] * 10_000}}, {}),
    "header": lambda name: ("POST", "/predict", {"model": "x" * 100_000}, {"Wager-Model": name}),
}


class Echo(BaseHTTPRequestHandler):
    """Answers each request with the port of its server, or an upgrade with 400, and closes the connection."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = str(self.connection.getsockname()[1]).encode()
        self.send_response(400 if "Upgrade" in self.headers else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815  the base class looks for this name

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Quiet(ThreadingHTTPServer):
    """Says nothing about connections that the balancer closes."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Do nothing."""


@contextlib.contextmanager
def echo() -> Iterator[int]:
    with Quiet(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def balanced(folder: Path, workers: tuple[int, int], by: str) -> Iterator[httpx2.Client]:
    tool("haproxy")
    with (
        balancing(folder, workers, by) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", verify=False, timeout=20.0) as client,
    ):
        yield client


def worker_of(client: httpx2.Client, way: str, model: str) -> str:
    method, path, body, headers = NAMING[way](model)
    answer = client.request(method, path, json=body, headers=headers)
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("by", ["model", "connections"])
def test_the_balancer_follows_the_name_of_the_model(tmp_path: Path, by: str) -> None:
    """However a request names the model, it reaches the same worker; by default, connections are counted.

    Other requests go to all workers. A client that offers another protocol is answered in HTTP/1.1.
    """
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    with echo() as one, echo() as other, balanced(tmp_path, (one, other), by) as client:
        found = {model: {worker_of(client, way, model) for way in NAMING} for model in MODELS}
        assert len(set().union(*found.values())) == 2
        assert all(len(workers) == 1 for workers in found.values()) is (by == "model")
        assert len({client.get("/learners").text for _ in range(6)}) == 2
        late = {"context": [1.0] * 10_000, "model": "late"}  # beyond what the balancer reads
        assert len({client.post("/predict", json=late).text for _ in range(6)}) == 2
        assert client.post("/predict", json={"model": "m"}, headers=offer).status_code == 200


def test_the_models_of_a_lost_worker_go_to_the_other(tmp_path: Path) -> None:
    with echo() as one, contextlib.ExitStack() as stack:
        other = stack.enter_context(echo())
        with balanced(tmp_path, (one, other), "model") as client:
            assert {worker_of(client, "body", model) for model in MODELS} == {str(one), str(other)}
            stack.close()
            assert {worker_of(client, "body", model) for model in MODELS} == {str(one)}
