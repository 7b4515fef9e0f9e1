"""The law of large bodies, which are parsed in a thread: they are answered like small ones."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from service.api.responses.bodies import LARGE, MOST_MEMBERS
from service.store.embedded.server import EmbeddedServer
from tests.service.bad_requests import REFUSED
from tests.service.refused import FULL_INFORMATION, LABEL_SET, MODEL, RANKING, Refused, X
from tests.service.sample_models import definition
from tests.service.workers import worker

BLANKS = b" " * LARGE
"""Valid JSON whitespace, which makes any body large."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, httpx2.AsyncClient]]:
    """Run a worker with the table's models on a separate store."""
    with EmbeddedServer(tmp_path_factory.mktemp("large")) as server, asyncio.Runner() as runner:
        context = worker(server.url)
        one = runner.run(context.__aenter__())
        for name in (MODEL, FULL_INFORMATION, LABEL_SET, RANKING):
            assert runner.run(one.post("/models", json=definition(name))).status_code == 201
        yield runner, one
        runner.run(context.__aexit__(None, None, None))


def send(running: tuple[asyncio.Runner, httpx2.AsyncClient], request: Refused, content: bytes) -> httpx2.Response:
    """Send a request with another body."""
    runner, client = running
    headers = request.headers
    return runner.run(client.request(request.method, request.path, content=content, headers=headers))


def normalized(response: httpx2.Response) -> Any:
    """Return status, content type and problem of an answer, without the request id."""
    problem = response.json()
    problem.pop("request_id", None)
    return response.status_code, response.headers["content-type"], problem


WITH_BODY = [
    request for request in REFUSED if request.content and request.slug not in {"body-too-large", "invalid-json"}
]


@pytest.mark.parametrize("request_", WITH_BODY, ids=lambda request: request.id)
def test_a_large_body_is_refused_like_a_small_one(
    client: tuple[asyncio.Runner, httpx2.AsyncClient], request_: Refused
) -> None:
    """Leading blanks do not change the answer."""
    assert request_.content is not None
    small, large = (send(client, request_, content) for content in (request_.content, BLANKS + request_.content))
    if small.status_code >= 400:  # requests that need another test's models may succeed here
        assert normalized(large) == normalized(small)


@pytest.mark.parametrize("request_", [r for r in REFUSED if r.slug == "invalid-json"], ids=lambda request: request.id)
def test_a_large_body_that_is_not_json_is_refused_like_a_small_one(
    client: tuple[asyncio.Runner, httpx2.AsyncClient], request_: Refused
) -> None:
    """Status and problem type are those of a small body; only the position of the error includes the blanks."""
    assert request_.content is not None
    small, large = (send(client, request_, content) for content in (request_.content, BLANKS + request_.content))
    assert (
        (large.status_code, large.json()["type"])
        == (small.status_code, small.json()["type"])
        == (
            400,
            "urn:wager:problem:invalid-json",
        )
    )


def test_a_large_body_is_answered_like_a_small_one(client: tuple[asyncio.Runner, httpx2.AsyncClient]) -> None:
    """A repeated prediction in a body with many blanks gets the same answer."""
    content = f'{{"model": "{MODEL}", "context": {X}, "prediction_id": "large"}}'.encode()
    request = Refused("", "POST", "/predict", content, 200, "", None)
    small, large = (send(client, request, body) for body in (content, BLANKS + content))
    assert (small.status_code, large.json()) == (200, small.json())


@pytest.mark.parametrize("deep", [False, True], ids=["outside", "inside"])
def test_the_number_of_members_is_bounded(client: tuple[asyncio.Runner, httpx2.AsyncClient], deep: bool) -> None:
    """An object with too many members is refused immediately, because each could be an error to report."""
    many = "{" + ",".join(f'"member-{i:020}": 1' for i in range(MOST_MEMBERS + 1)) + "}"
    content = (f'{{"model": "{MODEL}", "context": {many}}}' if deep else many).encode()
    response = send(client, Refused("", "POST", "/predict", content, 422, "", None), content)
    assert response.status_code == 422
    assert "1,001 members" in response.json()["detail"]
