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
    "body of version 1": lambda name: ("POST", "/v1/predict", {"model": name}, {}),
    "batch": lambda name: ("POST", "/predict/batch", {"model": name, "contexts": [[1.0]]}, {}),
    "feedback": lambda name: ("POST", "/feedback", {"prediction_id": f"{name}:~a:1", "correct": True}, {}),
    "activation": lambda name: ("POST", "/activate", {"prediction_id": f"{name}:~a"}, {}),
    "feedback batch": lambda name: (
        "POST",
        "/feedback/batch",
        {"feedback": [{"prediction_id": f"{name}:~a", "correct": True}, {"prediction_id": "other:~b"}]},
        {},
    ),
    "path": lambda name: ("GET", f"/models/{name}", None, {}),
    "longer path of version 1": lambda name: ("GET", f"/v1/models/{name}/rounds", None, {}),
    "header": lambda name: ("POST", "/predict", {"model": "x" * 100_000}, {"X-Wager-Model": name}),
}


class Echo(BaseHTTPRequestHandler):
    """Answers each request with the port of its server, or an upgrade with 400, and closes the connection."""

    def do_GET(self) -> None:
        """Answer."""
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
    """Run a worker that tells its name; yield its port."""
    with Quiet(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


Balanced = tuple[str, httpx2.Client]
"""What a balancer balances by, and a client of it."""


@pytest.fixture(scope="module", params=["model", "connections"])
def balanced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    """Run the balancer in front of two workers; yield what it balances by, and its client."""
    tool("haproxy")
    with (
        echo() as one,
        echo() as other,
        balancing(tmp_path_factory.mktemp("haproxy"), (one, other), request.param) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", verify=False, timeout=20.0) as client,
    ):
        yield request.param, client


def worker_of(client: httpx2.Client, way: str, model: str) -> str:
    """Send a request that names a model in one way; return the worker that answered."""
    method, path, body, headers = NAMING[way](model)
    answer = client.request(method, path, json=body, headers=headers)
    assert answer.status_code == 200
    return answer.text


def test_every_request_of_a_model_goes_to_one_worker(balanced: Balanced) -> None:
    """However a request names the model, it reaches the same worker; the models are on both workers.

    By default, the balancer counts connections only.
    """
    by, client = balanced
    found = {model: {worker_of(client, way, model) for way in NAMING} for model in MODELS}
    assert len(set().union(*found.values())) == 2
    assert all(len(workers) == 1 for workers in found.values()) is (by == "model")


def test_requests_without_a_model_go_to_all_workers(balanced: Balanced) -> None:
    """A request that names no model, or names it beyond what the balancer reads, is balanced in turn."""
    _, client = balanced
    assert len({client.get("/learners").text for _ in range(6)}) == 2
    body = {"context": [1.0] * 10_000, "model": "late"}
    assert len({client.post("/predict", json=body).text for _ in range(6)}) == 2


def test_no_upgrade_reaches_a_worker(balanced: Balanced) -> None:
    """A client that offers another protocol, as some do by default, is answered in HTTP/1.1."""
    _, client = balanced
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    assert client.get("/learners", headers=offer).status_code == 200
    assert client.post("/predict", json={"model": "m"}, headers=offer).status_code == 200


def test_the_models_of_a_lost_worker_go_to_the_other(tmp_path: Path) -> None:
    """A connection that fails is tried again elsewhere, so no request fails."""
    tool("haproxy")
    with echo() as one, contextlib.ExitStack() as stack:
        other = stack.enter_context(echo())
        with (
            balancing(tmp_path, (one, other), "model") as port,
            httpx2.Client(base_url=f"http://127.0.0.1:{port}", verify=False, timeout=20.0) as client,
        ):
            before = {model: worker_of(client, "body", model) for model in MODELS}
            assert set(before.values()) == {str(one), str(other)}
            stack.close()
            assert {worker_of(client, "body", model) for model in MODELS} == {str(one)}
