"""The laws of web pages where no keys are required: pages of other sites read nothing and change nothing."""

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook

from service.api.middleware.origins import OwnPages
from service.errors import ForeignOriginError, UnknownHostError
from service.settings import Settings
from tests.service.access.test_scopes import BODIES, OPERATIONS
from tests.service.api_description import api_description
from tests.service.sample_models import definition
from tests.service.workers import START, worker

API: dict[str, Any] = api_description()
WRITES = [each for each in OPERATIONS if each[0] != "GET"]
READS = [path for method, path in OPERATIONS if method == "GET"] + ["/", "/docs", "/openapi.json", "/nothing"]
X = [0.6, 0.8, 0.0]
SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
OCTETS = "application/octet-stream"
LISTED = "https://tool.example"

OWN_HOSTS = [
    "localhost", "localhost:8000", "LocalHost:8000", "localhost.", "localhost.:8000", "localhost:", "127.0.0.1",
    "127.0.0.1:8000", "10.0.0.7:80", "[::1]", "[::1]:8000", "[FE80::1]:8000", "bound.example", "listed.example:8000",
    "Listed.Example", "a_b",
]  # fmt: skip
FOREIGN_HOSTS = [
    "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "evil.localhost", "",
    ":8000", ".", "evil@localhost", "localhost@evil.example", "localhost evil.example", "localhost,evil.example",
    "127.1", "0x7f.0.0.1", "2130706433", "::1", "[::1", "[::1]evil.example", "[localhost]", "x.listed.example",
    "evil.example.", "localhost:8000:8000", "localhost/", "\xff",
]  # fmt: skip
OWN_ORIGINS = [
    ("localhost:8000", "http://localhost:8000"),
    ("localhost", "http://localhost"),
    ("localhost:80", "http://localhost"),
    ("localhost", "https://localhost"),  # behind a proxy with TLS
    ("localhost:443", "https://localhost"),
    ("LocalHost.:8000", "http://localhost:8000"),
    ("[::1]:8000", "http://[::1]:8000"),
    ("127.0.0.1:8000", "https://127.0.0.1:8000"),
    ("localhost:8000", LISTED),
]
FOREIGN_ORIGINS = [
    ("localhost:8000", "http://localhost:3000"),
    ("localhost:8000", "http://localhost"),
    ("localhost", "http://localhost:8000"),
    ("localhost:443", "http://localhost"),
    ("localhost:8000", "http://127.0.0.1:8000"),
    ("localhost:8000", "http://localhost.evil.example:8000"),
    ("localhost:8000", "https://evil.example"),
    ("localhost:8000", "https://tool.example:8000"),
    ("localhost:8000", "http://tool.example"),
    ("localhost:8000", "null"),
    ("localhost:8000", ""),
    ("localhost:8000", "localhost:8000"),
    ("localhost:8000", "file://"),
    ("localhost:8000", "file://localhost:8000"),
    ("localhost:8000", "chrome-extension://localhost:8000"),
    ("localhost:8000", "http://localhost:8000/"),
    ("localhost:8000", "http://evil@localhost:8000"),
    ("localhost:8000", "http://localhost:8000 http://evil.example"),
]
MEDIA_TYPES = [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
               "text/plain; application/json", "application/jsonp"]  # fmt: skip


def check(method: str, *repeated: tuple[str, str], **headers: str) -> None:
    """Check the headers of a request to a service that is bound to one name, and has others."""
    pages = OwnPages(["Bound.Example.", "listed.example", "a_b"], [LISTED])
    pages.check(method, [(name.encode(), value.encode("latin-1")) for name, value in (*headers.items(), *repeated)])


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_own_hosts_are_accepted(host: str) -> None:
    """Any address, localhost, the bound name and the listed names, with any port."""
    for method in ("GET", "POST"):
        check(method, host=host)


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_foreign_hosts_are_refused(host: str) -> None:
    """Every other host, also for reading, and whatever the origin is."""
    for method in ("GET", "OPTIONS", "DELETE"):
        for more in ({}, {"origin": f"http://{host}"}, {"origin": LISTED}, {"origin": "http://localhost"}):
            with pytest.raises(UnknownHostError):
                check(method, host=host, **more)


@pytest.mark.parametrize(("host", "origin"), OWN_ORIGINS)
def test_own_origins_may_write(host: str, origin: str) -> None:
    """The origin of the request's own host and port, with any scheme, and listed origins."""
    check("POST", host=host, origin=origin)


@pytest.mark.parametrize(("host", "origin"), FOREIGN_ORIGINS)
def test_foreign_origins_may_not_write(host: str, origin: str) -> None:
    """Another host, port or kind of page may only read, which the browser does not let it."""
    for method in ("POST", "PUT", "PATCH", "DELETE", "TRACE", "ANYTHING"):
        with pytest.raises(ForeignOriginError):
            check(method, host=host, origin=origin)
    check("GET", host=host, origin=origin)
    check("OPTIONS", host=host, origin=origin)


@pytest.mark.parametrize(("host", "origin"), FOREIGN_ORIGINS)
def test_every_origin_must_be_an_own_one(host: str, origin: str) -> None:
    """An own origin beside a foreign one, as a proxy may add, does not make it an own one, in either order."""
    for pair in ((origin, LISTED), (LISTED, origin)):
        with pytest.raises(ForeignOriginError):
            check("POST", *[("origin", each) for each in pair], host=host)
    check("POST", ("origin", LISTED), ("origin", LISTED), host=host)


def test_different_hosts_are_no_own_one() -> None:
    """A request with different `Host` headers is refused, in either order (RFC 9112, section 3.2)."""
    for pair in (("evil.example", "localhost"), ("localhost", "evil.example"), ("localhost", "127.0.0.1")):
        with pytest.raises(UnknownHostError):
            check("GET", *[("host", each) for each in pair])
    check("GET", ("host", "localhost"), host="localhost")


def test_programs_that_are_no_browsers_need_neither_header() -> None:
    """HTTP/1.0 needs no host, and no health check has one; but a page always has both."""
    check("POST")
    check("POST", host="localhost")
    with pytest.raises(ForeignOriginError):
        check("POST", origin="http://localhost")


def valid(method: str, path: str, name: str, file: bytes) -> tuple[str, bytes, dict[str, str]]:
    """Return the path, the body and the headers of a request that writes."""
    url = path.format(name=f"{name}-new" if path.endswith("/import") else name, snapshot="kept", shadow="rival")
    if path.endswith("/import"):
        return url, file, {"content-type": OCTETS}
    subject = f"{name}-new" if path == "/models" else name
    special = {
        "/models/{name}": {"window_seconds": 9.0},
        "/webhooks/feedback": {"prediction_id": f"{name}:made", "correct": True},
        "/models/{name}/rounds": {
            "source": "s",
            "offset": 0,
            "rounds": [{"context": X, "label": "red", "propensity": 0.5, "correct": True}],
        },
    }
    body = special.get(path) or (BODIES[path](subject) if path in BODIES else None)
    content = b"" if method == "DELETE" else json.dumps(body).encode()
    return url, content, signed(content) | {"content-type": "application/json", "if-match": "*"}


def signed(content: bytes) -> dict[str, str]:
    """Return the signature of a webhook."""
    signature = Webhook(SECRET).sign("m", datetime.fromtimestamp(START, UTC), content.decode())
    return {"webhook-id": "m", "webhook-timestamp": f"{START:.0f}", "webhook-signature": signature}


async def prepared(client: httpx2.AsyncClient, name: str) -> bytes:
    """Create a model with a prediction, a kept snapshot and a shadow; return its file."""
    sent: list[tuple[str, str, Any]] = [
        ("POST", "/models", definition(name)),
        ("POST", "/predict", {"model": name, "context": X, "prediction_id": "made"}),
        ("POST", f"/models/{name}/snapshots", {"id": "kept"}),
        ("PUT", f"/models/{name}/shadows/rival", {"learner": "gaptron"}),
    ]
    for method, path, body in sent:
        answer = await client.request(method, path, json=body)
        assert answer.is_success, answer.text
    return (await client.get(f"/models/{name}/export")).content


async def seen(client: httpx2.AsyncClient, name: str) -> list[Any]:
    """Return what shows a change of any model."""
    found: list[Any] = [(await client.get(f"/models/{name}")).headers.get("etag")]
    for path in (
        "",
        f"/{name}-new",
        f"/{name}/rounds",
        f"/{name}/snapshots",
        f"/{name}/shadows",
        f"/{name}/predictions",
    ):
        answer = await client.get(f"/models{path}")
        found.append((answer.status_code, [line for line in answer.text.splitlines() if "request_id" not in line]))
    return found


async def refusals(
    client: httpx2.AsyncClient, method: str, url: str, content: bytes, cases: Iterable[dict[str, str]]
) -> set[tuple[int, str]]:
    """Send a request with different headers; return the problems."""
    answers = [await client.request(method, url, content=content, headers=headers) for headers in cases]
    return {(each.status_code, each.json()["type"].rpartition(":")[2]) for each in answers}


@pytest.mark.parametrize("prefix", ["", "/v1"], ids=["root", "v1"])
@pytest.mark.parametrize(("method", "path"), WRITES, ids=str)
async def test_no_other_page_changes_anything(store_url: str, name: str, method: str, path: str, prefix: str) -> None:
    """A valid write with a foreign host, a foreign origin or another media type is refused; without them it acts."""
    async with worker(store_url, webhook_secrets=SECRET) as client:
        url, content, headers = valid(method, path, name, await prepared(client, name))
        url, before = prefix + url, await seen(client, name)
        hosts = [headers | {"host": host} for host in FOREIGN_HOSTS[:3]]
        assert await refusals(client, method, url, content, hosts) == {(421, "unknown-host")}
        origins = [headers | {"host": host, "origin": origin} for host, origin in FOREIGN_ORIGINS]
        assert await refusals(client, method, url, content, origins) == {(403, "foreign-origin")}
        if content and path != "/webhooks/feedback":  # a signature is proof enough
            bare = {name: value for name, value in headers.items() if name != "content-type"}
            types = [bare if each is None else bare | {"content-type": each} for each in MEDIA_TYPES]
            assert await refusals(client, method, url, content, types) == {(415, "unsupported-media-type")}
        assert await seen(client, name) == before
        own = await client.request(method, url, content=content, headers=headers | {"origin": "http://localhost"})
        assert own.is_success, own.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000"])
async def test_a_rebound_name_reads_nothing(store_url: str, name: str, host: str) -> None:
    """Every path refuses a foreign host, also health checks: the rule has no exception."""
    async with worker(store_url) as client:
        await prepared(client, name)
        urls = [path.format(name=name, snapshot="kept", shadow="rival") for path in READS]
        for method in ("GET", "HEAD", "OPTIONS"):
            answers = [await client.request(method, url, headers={"host": host}) for url in urls]
            assert {each.status_code for each in answers} == {421}
            assert name not in "".join(each.text for each in answers)


async def test_with_keys_the_key_is_the_proof(store_url: str) -> None:
    """Where keys are required, any host and origin is answered as without them."""
    async with worker(store_url, auth="required") as client:
        for headers in ({}, {"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert (await client.post("/predict", json={}, headers=headers)).status_code == 401
            assert (await client.get("/livez", headers=headers)).status_code == 200


async def test_listed_pages_can_read_why_a_host_is_refused(store_url: str) -> None:
    """A page of a listed origin reads the problem, and its preflight needs no host."""
    async with worker(store_url, cors_origins=LISTED) as client:
        headers = {"host": "evil.example", "origin": LISTED}
        refused = await client.post("/predict", json={}, headers=headers)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (421, LISTED)
        asked = headers | {"access-control-request-method": "POST"}
        assert (await client.options("/predict", headers=asked)).status_code == 204


def test_every_body_has_one_media_type() -> None:
    """So no operation takes what a page can send without a preflight request."""
    for path, item in API["paths"].items():
        for operation in item.values():
            if "requestBody" in operation:
                assert list(operation["requestBody"]["content"]) in (["application/json"], [OCTETS]), path


@pytest.mark.parametrize(
    "host",
    ["*", "*.example", "http://a", "a:80", "a/b", "A.example", "a.", ".a", "a b", "[::1]", "é.example", "a" * 254],
)
def test_what_is_no_host_name_is_refused(host: str) -> None:
    """A setting that could never match is a settings error."""
    with pytest.raises(ValidationError, match="must be a host name such as"):
        Settings(allowed_hosts=f"a.example,{host}")


def test_several_hosts_are_accepted() -> None:
    """Names are separated by commas, with or without blanks, and empty ones do not count."""
    assert Settings(allowed_hosts="a, b.example,,a_b, 10.0.0.7,").allowed_host_list == [
        "a",
        "b.example",
        "a_b",
        "10.0.0.7",
    ]
