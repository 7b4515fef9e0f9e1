"""The laws of paths: each has its methods, and no answer redirects."""

from typing import Any

import httpx2
import pytest

from tests.service.api_description import api_description
from tests.service.wager import Wager
from tests.service.workers import worker

_API: dict[str, Any] = api_description()
DOCUMENTED = {path: {method.upper() for method in item} for path, item in _API["paths"].items()}
PATHS = (
    DOCUMENTED
    | {f"/v1{path}": methods for path, methods in DOCUMENTED.items()}
    | {"/docs": {"GET"}, "/docs/docs.js": {"GET"}, "/openapi.json": {"GET"}}
)
PARTS = {"name": "nobody", "snapshot": "kept", "shadow": "rival"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")


async def test_other_methods_are_refused_with_the_allowed_ones(client: httpx2.AsyncClient) -> None:
    """A method that a path lacks gets 405 with the path's methods, which never get 405."""
    for path, documented in PATHS.items():
        own = documented | ({"HEAD"} if "GET" in documented else set())
        for method in METHODS:
            response = await client.request(method, path.format(**PARTS))
            assert (response.status_code == 405) == (method not in own), (method, path)
            if response.status_code == 405:
                assert set(response.headers["allow"].split(", ")) == own, path
                assert method == "HEAD" or response.json()["type"] == "urn:wager:problem:method-not-allowed"


def test_operations_of_other_methods_read_a_body() -> None:
    """Only GET and DELETE have none: the gate waits for theirs, so no operation begins before its body."""
    for path, item in _API["paths"].items():
        for method, operation in item.items():
            own = operation.get("requestBody", {}).get("required", False)
            assert own == (method not in ("get", "delete")), (method, path)


async def test_head_is_answered_like_get_without_a_body(live: Wager) -> None:
    """Over one connection, HEAD has the status and headers of GET, and leaves nothing in front of the next answer."""
    own = {"date", "x-request-id"}
    async with httpx2.AsyncClient(base_url=live.url, limits=httpx2.Limits(max_connections=1)) as client:
        for path in ("/livez", "/readyz", "/", "/models", "/openapi.json", "/nothing", "/predict"):
            pair = [await client.request(method, path) for method in ("HEAD", "GET")]
            heads = [{name: value for name, value in each.headers.items() if name not in own} for each in pair]
            assert (pair[0].status_code, heads[0]) == (pair[1].status_code, heads[1]), path
            assert not pair[0].content


@pytest.mark.parametrize("auth", ["off", "required"])
async def test_no_answer_redirects(store_url: str, auth: str) -> None:
    """No answer redirects or repeats the request's host, whatever the path's ending."""
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
    async with worker(store_url, auth=auth, allowed_hosts="evil.example") as client:
        for path in (*PATHS, "/", "/v1", "/nothing", "/docs/nothing"):
            for end in ("", "/", "//", "?x=/"):
                for method in ("GET", "POST", "DELETE"):
                    response = await client.request(method, path.format(**PARTS) + end, headers=headers)
                    assert not 300 <= response.status_code < 400
                    assert "location" not in response.headers
                    assert "evil.example" not in str(response.headers) + response.text
