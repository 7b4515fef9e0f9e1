"""The laws of calls from a browser: pages of the listed origins can read answers, others cannot."""

import pytest
from pydantic import ValidationError

from service.api.middleware.origins import ALLOWED_HEADERS, ALLOWED_METHODS, EXPOSED_HEADERS
from service.settings import Settings
from tests.service.workers import worker

ORIGIN, OTHER = "https://shop.example", "https://evil.example"
ALLOW = "access-control-allow-origin"

REFUSED = [
    "*",
    "null",
    "shop.example",
    "https://*.example",
    "https://shop.example/",
    "https://shop.example/page",
    "https://Shop.example",
    "https://shop.example:443",
    "http://shop.example:80",
    "https://user@shop.example",
    "https://shop.example https://other.example",
    "ftp://shop.example",
    "https://",
    "https://shop.example\nhttps://other.example",
]
ACCEPTED = [
    "https://shop.example",
    "http://localhost:3000",
    "http://127.0.0.1:8443",
    "https://[::1]:8443",
    "http://a:443",
]


def preflight(origin: str) -> dict[str, str]:
    """Return the headers of a preflight request."""
    return {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }


@pytest.mark.parametrize("path", ["/predict", "/models/m", "/nothing"])
async def test_a_preflight_of_a_listed_origin_needs_no_key(store_url: str, path: str) -> None:
    """It is answered before the key is checked, lists methods and headers only, and does not allow cookies."""
    async with worker(store_url, auth="required", cors_origins=f"http://other.example,{ORIGIN}") as client:
        answer = await client.options(path, headers=preflight(ORIGIN))
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers[ALLOW] == ORIGIN
        assert "access-control-allow-credentials" not in answer.headers
        assert set(answer.headers["access-control-allow-methods"].split(", ")) == set(ALLOWED_METHODS)
        assert set(ALLOWED_HEADERS) <= set(answer.headers["access-control-allow-headers"].split(", "))
        assert "Origin" in answer.headers["vary"]


async def test_pages_of_a_listed_origin_read_answers_and_refusals(store_url: str) -> None:
    """Answers and problems of the service, also 401, carry the origin and expose the headers that clients need."""
    async with worker(store_url, auth="required", cors_origins=ORIGIN) as client:
        ready, refused = (
            await client.get("/readyz", headers={"Origin": ORIGIN}),
            await client.post("/predict", json={"model": "m"}, headers={"Origin": ORIGIN}),
        )
    assert (ready.status_code, refused.status_code) == (200, 401)
    for answer in (ready, refused):
        assert answer.headers[ALLOW] == ORIGIN
        assert answer.headers["access-control-expose-headers"].split(", ") == list(EXPOSED_HEADERS)
        assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize("origin", [OTHER, "null", "https://shop.example.evil.example", "http://shop.example"])
async def test_other_origins_are_answered_as_without_cors(store_url: str, origin: str) -> None:
    """A preflight request or a request of another origin gets the answer of a service without the setting."""
    async with (
        worker(store_url, auth="required", cors_origins=ORIGIN) as client,
        worker(store_url, auth="required") as without,
    ):
        for method, path, headers in [
            ("OPTIONS", "/predict", preflight(origin)),
            ("GET", "/readyz", {"Origin": origin}),
            ("GET", "/models", {"Origin": origin}),
            ("GET", "/readyz", {}),
        ]:
            named = headers | {"X-Request-ID": "the-same"}
            given, expected = [await each.request(method, path, headers=named) for each in (client, without)]
            assert (given.status_code, given.headers, given.content) == (
                expected.status_code,
                expected.headers,
                expected.content,
            )


@pytest.mark.parametrize("origin", REFUSED)
def test_what_no_browser_sends_is_refused(origin: str) -> None:
    """A setting that can never match, or that would match more than one origin, is a settings error."""
    with pytest.raises(ValidationError, match="must be an origin such as"):
        Settings(cors_origins=f"{ORIGIN},{origin}")


def test_several_origins_are_accepted() -> None:
    """Origins are separated by commas, with or without blanks."""
    assert Settings(cors_origins=", ".join(ACCEPTED)).cors_origin_list == ACCEPTED
