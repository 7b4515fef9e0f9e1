"""The laws of calls from a browser: pages of other sites read nothing and change nothing, those listed read answers."""

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook

from service.api.middleware.origins import ALLOWED_HEADERS, ALLOWED_METHODS, EXPOSED_HEADERS, OwnPages
from service.api.responses.evaluation_failures import is_ofrep
from service.errors import ForeignOriginError, UnknownHostError
from service.settings import Settings
from tests.service.access.test_scopes import BODIES, OPERATIONS
from tests.service.api_description import api_description
from tests.service.evaluations import failure_of
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
    ("localhost:8000", "http://localhost:8000"), ("localhost", "http://localhost"),
    ("localhost:80", "http://localhost"), ("localhost", "https://localhost"), ("localhost:443", "https://localhost"),
    ("LocalHost.:8000", "http://localhost:8000"), ("[::1]:8000", "http://[::1]:8000"),
    ("127.0.0.1:8000", "https://127.0.0.1:8000"), ("localhost:8000", LISTED),
]  # fmt: skip
FOREIGN_ORIGINS = [
    ("localhost:8000", "http://localhost:3000"), ("localhost:8000", "http://localhost"),
    ("localhost", "http://localhost:8000"), ("localhost:443", "http://localhost"),
    ("localhost:8000", "http://127.0.0.1:8000"), ("localhost:8000", "http://localhost.evil.example:8000"),
    ("localhost:8000", "https://evil.example"), ("localhost:8000", "https://tool.example:8000"),
    ("localhost:8000", "http://tool.example"), ("localhost:8000", "null"), ("localhost:8000", ""),
    ("localhost:8000", "localhost:8000"), ("localhost:8000", "file://"), ("localhost:8000", "file://localhost:8000"),
    ("localhost:8000", "chrome-extension://localhost:8000"), ("localhost:8000", "http://localhost:8000/"),
    ("localhost:8000", "http://evil@localhost:8000"),
    ("localhost:8000", "http://localhost:8000 http://evil.example"),
]  # fmt: skip
MEDIA_TYPES = [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
               "text/plain; application/json", "application/jsonp"]  # fmt: skip


def check(method: str, *repeated: tuple[str, str], **headers: str) -> None:
    pages = OwnPages(["Bound.Example.", "listed.example", "a_b"], [LISTED])
    pages.check(method, [(name.encode(), value.encode("latin-1")) for name, value in (*headers.items(), *repeated)])


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_own_hosts_are_accepted(host: str) -> None:
    for method in ("GET", "POST"):
        check(method, host=host)


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_foreign_hosts_are_refused(host: str) -> None:
    for method in ("GET", "OPTIONS", "DELETE"):
        for more in ({}, {"origin": f"http://{host}"}, {"origin": LISTED}, {"origin": "http://localhost"}):
            with pytest.raises(UnknownHostError):
                check(method, host=host, **more)


@pytest.mark.parametrize(("host", "origin"), OWN_ORIGINS)
def test_own_origins_may_write(host: str, origin: str) -> None:
    check("POST", host=host, origin=origin)


@pytest.mark.parametrize(("host", "origin"), FOREIGN_ORIGINS)
def test_foreign_origins_may_not_write(host: str, origin: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "TRACE", "ANYTHING"):
        with pytest.raises(ForeignOriginError):
            check(method, host=host, origin=origin)
    check("GET", host=host, origin=origin)
    check("OPTIONS", host=host, origin=origin)


@pytest.mark.parametrize(("host", "origin"), FOREIGN_ORIGINS)
def test_every_origin_must_be_an_own_one(host: str, origin: str) -> None:
    for pair in ((origin, LISTED), (LISTED, origin)):
        with pytest.raises(ForeignOriginError):
            check("POST", *[("origin", each) for each in pair], host=host)
    check("POST", ("origin", LISTED), ("origin", LISTED), host=host)


def test_different_hosts_are_no_own_one() -> None:
    for pair in (("evil.example", "localhost"), ("localhost", "evil.example"), ("localhost", "127.0.0.1")):
        with pytest.raises(UnknownHostError):
            check("GET", *[("host", each) for each in pair])
    check("GET", ("host", "localhost"), host="localhost")


def test_programs_that_are_no_browsers_need_neither_header() -> None:
    check("POST")
    check("POST", host="localhost")
    with pytest.raises(ForeignOriginError):
        check("POST", origin="http://localhost")


def valid(method: str, path: str, name: str, file: bytes) -> tuple[str, bytes, dict[str, str]]:
    subject = f"{name}-new" if path.endswith("/import") else name
    url = path.format(name=subject, key=f"{name}-flag", snapshot="kept", shadow="rival")
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
    signature = Webhook(SECRET).sign("m", datetime.fromtimestamp(START, UTC), content.decode())
    return {"webhook-id": "m", "webhook-timestamp": f"{START:.0f}", "webhook-signature": signature}


async def prepared(client: httpx2.AsyncClient, name: str) -> bytes:
    sent: list[tuple[str, str, Any]] = [
        ("POST", "/models", definition(name)),
        ("POST", "/predict", {"model": name, "context": X, "prediction_id": "made"}),
        ("POST", "/models", {"name": f"{name}-flag", "labels": ["a", "b"], "ofrep": {"sticky_seconds": 0}}),
        ("POST", f"/models/{name}/snapshots", {"id": "kept"}),
        ("PUT", f"/models/{name}/shadows/rival", {"learner": "gaptron"}),
    ]
    for method, path, body in sent:
        answer = await client.request(method, path, json=body)
        assert answer.is_success, answer.text
    return (await client.get(f"/models/{name}/export")).content


async def seen(client: httpx2.AsyncClient, name: str) -> list[Any]:
    found: list[Any] = [(await client.get(f"/models/{name}")).headers.get("etag")]
    for path in (
        "",
        f"/{name}-new",
        f"/{name}/rounds",
        f"/{name}/snapshots",
        f"/{name}/shadows",
        f"/{name}/predictions",
        f"/{name}-flag/predictions",
    ):
        answer = await client.get(f"/models{path}")
        found.append((answer.status_code, [line for line in answer.text.splitlines() if "request_id" not in line]))
    return found


async def refusals(
    client: httpx2.AsyncClient, method: str, url: str, content: bytes, cases: Iterable[dict[str, str]]
) -> set[tuple[int, str]]:
    answers = [await client.request(method, url, content=content, headers=headers) for headers in cases]
    return {(each.status_code, _slug_of(each)) for each in answers}


def _slug_of(refused: httpx2.Response) -> str:
    if is_ofrep(refused.request.url.path):  # whose failures name no type
        failure_of(refused, refused.status_code, "GENERAL")
        return {421: "unknown-host", 403: "foreign-origin", 415: "unsupported-media-type"}[refused.status_code]
    slug: str = refused.json()["type"].rpartition(":")[2]
    return slug


@pytest.mark.parametrize("prefix", ["", "/v1"], ids=["root", "v1"])
@pytest.mark.parametrize(("method", "path"), WRITES, ids=str)
async def test_no_other_page_changes_anything(store_url: str, name: str, method: str, path: str, prefix: str) -> None:
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
    async with worker(store_url) as client:
        await prepared(client, name)
        urls = [path.format(name=name, snapshot="kept", shadow="rival", prediction_id=f"{name}:made") for path in READS]
        for method in ("GET", "HEAD", "OPTIONS"):
            answers = [await client.request(method, url, headers={"host": host}) for url in urls]
            assert {each.status_code for each in answers} == {421}
            assert name not in "".join(each.text for each in answers)


async def test_with_keys_the_key_is_the_proof(store_url: str) -> None:
    async with worker(store_url, auth="required") as client:
        for headers in ({}, {"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert (await client.post("/predict", json={}, headers=headers)).status_code == 401
            assert (await client.get("/livez", headers=headers)).status_code == 200


async def test_listed_pages_can_read_why_a_host_is_refused(store_url: str) -> None:
    async with worker(store_url, cors_origins=LISTED) as client:
        headers = {"host": "evil.example", "origin": LISTED}
        refused = await client.post("/predict", json={}, headers=headers)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (421, LISTED)
        asked = headers | {"access-control-request-method": "POST"}
        assert (await client.options("/predict", headers=asked)).status_code == 204


def test_every_body_has_one_media_type() -> None:
    for path, item in API["paths"].items():
        for operation in item.values():
            if "requestBody" in operation:
                assert list(operation["requestBody"]["content"]) in (["application/json"], [OCTETS]), path


@pytest.mark.parametrize(
    "host",
    ["*", "*.example", "http://a", "a:80", "a/b", "A.example", "a.", ".a", "a b", "[::1]", "é.example", "a" * 254],
)
def test_what_is_no_host_name_is_refused(host: str) -> None:
    with pytest.raises(ValidationError, match="must be a host name such as"):
        Settings(allowed_hosts=f"a.example,{host}")


ORIGIN, OTHER = "https://shop.example", "https://evil.example"
ALLOW = "access-control-allow-origin"
REFUSED = [
    "*", "null", "shop.example", "https://*.example", "https://shop.example/", "https://shop.example/page",
    "https://Shop.example", "https://shop.example:443", "http://shop.example:80", "https://user@shop.example",
    "https://shop.example https://other.example", "ftp://shop.example", "https://",
    "https://shop.example\nhttps://other.example",
]  # fmt: skip
ACCEPTED = [
    "https://shop.example", "http://localhost:3000", "http://127.0.0.1:8443", "https://[::1]:8443", "http://a:443",
]  # fmt: skip


def preflight(origin: str) -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }


@pytest.mark.parametrize("path", ["/predict", "/models/m", "/nothing"])
async def test_a_preflight_of_a_listed_origin_needs_no_key(store_url: str, path: str) -> None:
    async with worker(store_url, auth="required", cors_origins=f"http://other.example,{ORIGIN}") as client:
        answer = await client.options(path, headers=preflight(ORIGIN))
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers[ALLOW] == ORIGIN
        assert "access-control-allow-credentials" not in answer.headers
        allowed = set(answer.headers["access-control-allow-methods"].split(", "))
        assert allowed == set(ALLOWED_METHODS) == {method for method, _ in OPERATIONS}
        assert set(ALLOWED_HEADERS) <= set(answer.headers["access-control-allow-headers"].split(", "))
        assert "Origin" in answer.headers["vary"]


async def test_pages_of_a_listed_origin_read_answers_and_refusals(store_url: str) -> None:
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
    with pytest.raises(ValidationError, match="must be an origin such as"):
        Settings(cors_origins=f"{ORIGIN},{origin}")
