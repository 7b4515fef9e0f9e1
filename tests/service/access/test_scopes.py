"""The laws of access: every operation of the API x every deficiency of a key. New operations are included."""

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import pytest

from service.access.key_admin import IssuedKey, KeyAdmin
from service.access.keys import SCOPES, Scope
from service.api.middleware.access import Need, need_of
from service.api.responses.evaluation_failures import is_ofrep
from service.errors import StoreFullError
from service.store.access_tables import ApiKeyTable, RequestCount, UsageCounters
from service.store.redis.redis_store import RedisStore
from tests.service.api_description import api_description
from tests.service.evaluations import failure_of
from tests.service.keyed import bearer, key_admin_at
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, worker

OWN, FOREIGN, ABSENT = "shop-own", "hidden-there", "hidden-absent"
X = [0.6, 0.8, 0.0]
_API: dict[str, Any] = api_description()
OPERATIONS = [(method.upper(), path) for path, item in _API["paths"].items() for method in item]
NEEDED: dict[str, set[tuple[str, str]]] = {
    "predict": {
        ("POST", "/predict"), ("POST", "/predict/batch"), ("POST", "/ofrep/v1/evaluate/flags"),
        ("POST", "/ofrep/v1/evaluate/flags/{key}"),
    },
    "feedback": {("POST", "/feedback"), ("POST", "/feedback/batch"), ("POST", "/activate")},
    "read": {
        ("GET", "/models"), ("GET", "/models/{name}"), ("GET", "/models/{name}/changes"),
        ("GET", "/models/{name}/snapshots"), ("GET", "/models/{name}/statistics"), ("GET", "/statistics"),
        ("GET", "/models/{name}/rounds"), ("GET", "/models/{name}/imports"), ("GET", "/models/{name}/export"),
        ("POST", "/models/{name}/explain"), ("GET", "/predictions/{prediction_id}"),
        ("GET", "/models/{name}/evaluation"), ("GET", "/models/{name}/shadows"),
        ("GET", "/models/{name}/shadows/{shadow}"), ("GET", "/models/{name}/predictions"), ("GET", "/learners"),
        ("GET", "/metrics"),
    },
    "admin": {
        ("POST", "/models"), ("PATCH", "/models/{name}"), ("DELETE", "/models/{name}"),
        ("POST", "/models/{name}/snapshots"), ("DELETE", "/models/{name}/snapshots/{snapshot}"),
        ("POST", "/models/{name}/rollback"), ("POST", "/models/{name}/reset"), ("POST", "/models/{name}/rounds"),
        ("POST", "/models/{name}/clone"), ("POST", "/models/{name}/import"),
        ("PUT", "/models/{name}/shadows/{shadow}"), ("DELETE", "/models/{name}/shadows/{shadow}"),
        ("POST", "/models/{name}/promote"),
    },
    "any": {("GET", "/key")},
}  # fmt: skip
"""The operations that need each scope; `any`: a key with any of them."""
OPEN = {("GET", "/livez"), ("GET", "/readyz"), ("POST", "/webhooks/feedback")}
"""Operations that need no key."""
SCOPE_OF = {operation: scope for scope, operations in NEEDED.items() for operation in operations}
CLOSED = [each for each in OPERATIONS if each in SCOPE_OF]
BODIES: dict[str, Any] = {  # request bodies about a model; other operations name it in the path
    "/predict": lambda name: {"model": name, "context": X},
    "/predict/batch": lambda name: {"model": name, "contexts": [X], "include_distribution": True},
    "/feedback": lambda name: {"prediction_id": f"{name}:made", "correct": True},
    "/feedback/batch": lambda name: {"feedback": [{"prediction_id": f"{name}:made", "correct": True}]},
    "/activate": lambda name: {"prediction_id": f"{name}:made"},
    "/models": definition,
    "/models/{name}/explain": lambda _: {"context": X},
    "/models/{name}/snapshots": lambda _: {},
    "/models/{name}/rollback": lambda _: {"snapshot": "kept"},
    "/models/{name}/reset": lambda _: {},
    "/models/{name}/clone": lambda name: {"name": f"{name}-copy"},
    "/models/{name}/rounds": lambda _: {"source": "s", "offset": 0, "rounds": [{"context": X, "true_label": "a"}]},
    "/models/{name}/shadows/{shadow}": lambda _: {"learner": "uniform"},
    "/models/{name}/promote": lambda _: {"shadow": "rival"},
    "/ofrep/v1/evaluate/flags": lambda _: {"context": {"targetingKey": "u", "tags": ["new"]}},
    "/ofrep/v1/evaluate/flags/{key}": lambda _: {"context": {"targetingKey": "u", "tags": ["new"]}},
}
UNNAMED = {"/key", "/learners", "/metrics", "/ofrep/v1/evaluate/flags"}
"""Operations that require a key but name no model."""
LISTS = {"/models", "/statistics"}
"""Operations that list the models of the key."""
IDENTIFIED = {"/predictions/{prediction_id}", "/ofrep/v1/evaluate/flags/{key}"}
"""Operations that name the model in the id of a prediction, or as the key of a flag."""
each_closed = pytest.mark.parametrize(("method", "path"), CLOSED, ids=str)
each_prefix = pytest.mark.parametrize("prefix", ["", "/v1"], ids=["root", "v1"])


class Guarded(NamedTuple):
    client: httpx2.AsyncClient
    clock: Clock
    keys: KeyAdmin

    async def ask(self, method: str, path: str, name: str, key: IssuedKey | None, prefix: str = "") -> httpx2.Response:
        body = BODIES[path](name) if method in ("POST", "PUT") and path in BODIES else None
        return await self.client.request(
            method,
            prefix + path.format(name=name, key=name, snapshot="kept", shadow="rival", prediction_id=f"{name}:made"),
            json=body,
            headers={} if key is None else bearer(key),
        )


@pytest.fixture
def guarded(store_url: str, runner: asyncio.Runner) -> Iterator[Guarded]:
    clock, store = Clock(), RedisStore(store_url, timeout=10.0)
    context = worker(store_url, clock=clock, auth="required", key_cache_seconds=0.0, max_distribution_numbers=1000)
    built = Guarded(runner.run(context.__aenter__()), clock, key_admin_at(ApiKeyTable(store.command), clock))
    admin = runner.run(built.keys.create("the tests", ["admin"]))

    async def set_up() -> None:
        for name in (OWN, FOREIGN):
            await built.client.delete(f"/models/{name}", headers=bearer(admin))
            made = await built.client.post("/models", json=definition(name), headers=bearer(admin))
            assert made.status_code == 201, made.text
            body = {"model": name, "context": X, "prediction_id": "made"}
            assert (await built.client.post("/predict", json=body, headers=bearer(admin))).status_code == 200

    runner.run(set_up())
    yield built
    runner.run(context.__aexit__(None, None, None))
    runner.run(store.close())


def problem(response: httpx2.Response, status: int, slug: str) -> dict[str, Any]:
    if is_ofrep(response.request.url.path):
        return failure_of(response, status, "GENERAL")
    assert response.headers["content-type"] == "application/problem+json", response.text
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["type"]) == (status, f"urn:wager:problem:{slug}"), response.text
    return body


def revealed(response: httpx2.Response, name: str) -> tuple[int, str, list[str]]:
    text = response.text.replace(name, "NAME").replace(response.headers["x-request-id"], "ID")
    return response.status_code, text, sorted(response.headers)


def test_every_operation_is_covered() -> None:
    named = {path for _, path in CLOSED if "{name}" in path}
    assert {path for _, path in CLOSED} == named | set(BODIES) | UNNAMED | LISTS | IDENTIFIED
    assert set(OPERATIONS) == OPEN | SCOPE_OF.keys()
    assert len(SCOPE_OF) == sum(map(len, NEEDED.values()))


def test_a_stored_prediction_needs_the_scope_read_of_its_model() -> None:
    for prefix in ("", "/v1"):
        assert need_of("GET", f"{prefix}/predictions/m:a/b") == Need("read", every_model=False)
        assert need_of("DELETE", f"{prefix}/predictions/m:a/b") == Need("admin")


@each_closed
async def test_without_a_valid_key_every_operation_is_refused(guarded: Guarded, method: str, path: str) -> None:
    """A missing, malformed, unknown or altered key gets 401; all wrong keys get the same answer."""
    good = await guarded.keys.create("good", ["admin"])
    other = "0" if good.text[-1] != "0" else "1"
    altered = [good.text[:-1] + other, good.text[:-1], good.text.upper(), f"wk_{'0' * 12}_{'0' * 64}", "wk_"]
    for prefix in ("", "/v1"):
        first = await guarded.ask(method, path, OWN, None, prefix)
        assert first.headers["www-authenticate"].startswith("Bearer ")
        problem(first, 401, "invalid-api-key")
        answers = [revealed(await guarded.ask(method, path, OWN, IssuedKey("", text), prefix), OWN) for text in altered]
        assert {answer[0] for answer in answers} == {401}
        assert len({answer[1] for answer in answers}) == 1


async def test_if_requests_cannot_be_counted_every_operation_is_refused(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> RequestCount:
        raise StoreFullError("the store refuses writes")

    monkeypatch.setattr(UsageCounters, "count", refuse)
    limited = await guarded.keys.create("limited", ["admin"], budgets={"requests": "9/day"})
    for method, path in CLOSED:  # the client of the tests checks that openapi.json declares the problem
        problem(await guarded.ask(method, path, OWN, limited), 507, "store-full")


@each_closed
async def test_expired_and_revoked_keys_look_unknown(guarded: Guarded, method: str, path: str) -> None:
    never = IssuedKey("0" * 12, f"wk_{'0' * 12}_{'0' * 64}")
    expiring, revoked = [await guarded.keys.create("x", ["admin"], expires_in=span) for span in (60.0, None)]
    await guarded.keys.revoke(revoked.id)
    guarded.clock.now = START + 60.0
    answers = [revealed(await guarded.ask(method, path, OWN, key), OWN) for key in (never, expiring, revoked)]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 401


@each_closed
@pytest.mark.parametrize("scope", SCOPES)
async def test_a_scope_opens_its_own_operations_only(guarded: Guarded, method: str, path: str, scope: Scope) -> None:
    """A key with one scope may do what needs it; a key with all others but `admin` may not."""
    needed = SCOPE_OF[method, path]
    allowed = needed in ("any", scope) or scope == "admin"
    others: list[str] = [each for each in SCOPES if each not in (scope, "admin")]
    for prefix in ("", "/v1"):
        response = await guarded.ask(method, path, OWN, await guarded.keys.create("one scope", [scope]), prefix)
        if allowed:
            assert response.status_code not in (401, 403), response.text
        else:
            problem(response, 403, "not-allowed")
            assert 'error="insufficient_scope"' in response.headers["www-authenticate"]
    if needed in (scope, "admin"):
        problem(await guarded.ask(method, path, OWN, await guarded.keys.create("others", others)), 403, "not-allowed")


@each_closed
@each_prefix
async def test_foreign_models_look_absent(guarded: Guarded, method: str, path: str, prefix: str) -> None:
    key, everything = (
        await guarded.keys.create("shop", ["admin"], "shop-*"),
        await guarded.keys.create("a", ["admin"]),
    )
    if path in UNNAMED:  # /metrics reports every model
        status = (await guarded.ask(method, path, FOREIGN, key, prefix)).status_code
        assert status == (403 if path == "/metrics" else 200)
        return
    before = (await guarded.client.get(f"/models/{FOREIGN}", headers=bearer(everything))).json()
    foreign, absent = [await guarded.ask(method, path, name, key, prefix) for name in (FOREIGN, ABSENT)]
    assert revealed(foreign, FOREIGN) == revealed(absent, ABSENT)
    assert (await guarded.client.get(f"/models/{FOREIGN}", headers=bearer(everything))).json() == before
    if path not in LISTS:
        absence = "FLAG_NOT_FOUND" if is_ofrep(path) else "model-not-found"
        assert absence in foreign.text
        own = await guarded.ask(method, path, OWN, key, prefix)
        assert absence not in own.text
    elif method == "POST":
        problem(foreign, 403, "not-allowed")


async def test_a_key_copies_its_own_models_only(guarded: Guarded) -> None:
    key, reader = await guarded.keys.create("shop", ["admin"], "shop-*"), await guarded.keys.create("r", ["read"])
    answers = [
        await guarded.client.post(f"/models/{OWN}/clone", json={"name": name}, headers=bearer(key))
        for name in (FOREIGN, ABSENT)
    ]
    assert revealed(answers[0], FOREIGN) == revealed(answers[1], ABSENT)
    problem(answers[0], 403, "not-allowed")
    file = await guarded.client.get(f"/models/{OWN}/export", headers=bearer(reader))
    assert file.status_code == 200
    for name, status in ((FOREIGN, 404), (ABSENT, 404), (OWN, 409), ("shop-imported", 201)):
        headers = bearer(key) | {"Content-Type": "application/octet-stream"}
        answer = await guarded.client.post(f"/models/{name}/import", content=file.content, headers=headers)
        assert answer.status_code == status, answer.text
    imported = (await guarded.client.get("/models/shop-imported", headers=bearer(key))).json()
    assert imported["changes"]["latest"][0]["by"] == key.id
    await guarded.client.delete("/models/shop-imported", headers=bearer(key))


async def test_a_large_batch_reveals_nothing_about_foreign_models(guarded: Guarded) -> None:
    key = await guarded.keys.create("shop", ["predict"], "shop-*")
    answers = []
    for name in (FOREIGN, ABSENT):
        body = {"model": name, "contexts": [X] * 1000, "include_distribution": True}
        answers.append(revealed(await guarded.client.post("/predict/batch", json=body, headers=bearer(key)), name))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("path", sorted(LISTS))
async def test_a_list_shows_only_the_models_of_the_key(guarded: Guarded, path: str) -> None:
    everything = await guarded.keys.create("a", ["admin"])
    names = ["list-0", "list-a-1", "list-a-2", "list-b-1", "list-b-2", "lisu"]
    for name in names:
        await guarded.client.post("/models", json=definition(name), headers=bearer(everything))
    for glob, own in {
        "list-b-*": ["list-b-1", "list-b-2"],
        "list*-1": ["list-a-1", "list-b-1"],
        "list-0": ["list-0"],
        "list-a-1*": ["list-a-1"],
        "list-*": names[:5],
        "list-*-*": names[1:5],
        "none-*": [],
    }.items():
        key = await guarded.keys.create("own", ["read"], glob)
        for limit in (1, 2, 200):
            found: list[str] = []
            cursor: str | None = ""
            while cursor is not None:
                parameters = {"cursor": cursor, "limit": str(limit)}
                page = (await guarded.client.get(path, params=parameters, headers=bearer(key))).json()
                found += [model["name"] for model in page["models"]]
                cursor = page["next_cursor"]
                assert cursor is None or cursor in own
            assert found == own, glob
    for name in names:
        await guarded.client.delete(f"/models/{name}", headers=bearer(everything))


@pytest.mark.parametrize("path", ["/metrics", "/predict/", "/x//predict", "/models/", "/v1/v1/predict", "/v2/models/x"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "OPTIONS", "HEAD"])
async def test_unknown_paths_are_closed(guarded: Guarded, method: str, path: str) -> None:
    assert (await guarded.client.request(method, path)).status_code == 401
    key = await guarded.keys.create("shop", ["predict", "feedback", "read"], "shop-*")
    assert (await guarded.client.request(method, path, headers=bearer(key))).status_code in (403, 404)
    reader = await guarded.keys.create("reader", ["read"])
    refused = (await guarded.client.request(method, path, headers=bearer(reader))).status_code == 403
    assert refused == (method not in ("GET", "HEAD"))


@pytest.mark.parametrize("trick", ["shop-own%2F..%2Fhidden-there", "shop-own/../hidden-there", "%2e%2e/hidden-there"])
async def test_a_path_in_a_name_is_refused(guarded: Guarded, trick: str) -> None:
    key = await guarded.keys.create("shop", ["admin"], "shop-*")
    for method in ("GET", "DELETE"):
        response = await guarded.client.request(method, f"/models/{trick}", headers=bearer(key))
        assert response.status_code in (404, 405)
        assert "created_at" not in response.text


async def test_a_key_is_accepted_in_either_header(guarded: Guarded) -> None:
    key, other = [await guarded.keys.create("x", ["read"]) for _ in range(2)]
    for headers, status in [
        ({"Authorization": f"bearer {key.text}"}, 200),
        ({"X-API-Key": key.text}, 200),
        ({"Authorization": "Basic eDp5", "X-API-Key": key.text}, 200),
        ({"Authorization": f"Bearer {key.text}", "X-API-Key": key.text}, 200),
        ({"Authorization": "Bearer wrong", "X-API-Key": key.text}, 401),
        ({"Authorization": f"Bearer {key.text}", "X-API-Key": other.text}, 401),
        ({"Authorization": key.text}, 401),
        ({"Cookie": f"key={key.text}"}, 401),
    ]:
        assert (await guarded.client.get("/learners", headers=headers)).status_code == status, headers
    assert (await guarded.client.get(f"/learners?key={key.text}")).status_code == 401


async def test_keys_appear_in_no_log_or_answer(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    key = await guarded.keys.create("x", ["read"], budgets={"requests": "1/day"})
    for _ in range(3):
        response = await guarded.client.get("/models/none", headers=bearer(key))
        assert key.text not in f"{response.text}{response.headers}"
    assert key.text not in caplog.text


ASKED = [
    (method.upper(), path.format(name="none", key="none", snapshot="kept", shadow="rival", prediction_id="none:made"))
    for path, item in _API["paths"].items()
    for method in item
]
ASKED_CLOSED = [each for each in ASKED if need_of(*each) is not None]
ASKED_OPEN = [each for each in ASKED if need_of(*each) is None] + [("GET", "/docs"), ("GET", "/openapi.json")]
KEY, OTHER = [f"wk_{digit * 12}_{digit * 64}" for digit in "01"]
MALFORMED: dict[str, list[tuple[str, str]]] = {
    "no key": [("Authorization", "Bearer junk")],
    "an empty key": [("X-API-Key", "")],
    "a secret too short": [("X-API-Key", KEY[:-1])],
    "capitals": [("Authorization", f"Bearer {KEY.upper()}")],
    "no scheme": [("Authorization", KEY)],
    "different keys": [("Authorization", f"Bearer {KEY}"), ("X-API-Key", OTHER)],
    "two keys in one header": [("X-API-Key", KEY), ("X-API-Key", OTHER)],
}
ACCEPTED: dict[str, list[tuple[str, str]]] = {
    "nothing": [],
    "a key": [("Authorization", f"Bearer {KEY}")],
    "a key in its own header": [("X-API-Key", KEY)],
    "the same key twice": [("Authorization", f"bearer {KEY}"), ("X-API-Key", KEY)],
    "a proxy's header": [("Authorization", "Basic eDp5")],
    "a key and a proxy's header": [("Authorization", "Basic eDp5"), ("X-API-Key", KEY)],
}
SETTINGS: list[dict[str, Any]] = [{"auth": "off"}, {"auth": "auto"}]


async def statuses(client: httpx2.AsyncClient, cases: dict[str, list[tuple[str, str]]]) -> list[tuple[str, int]]:
    return [
        (f"{method} {path}, {case}", (await client.request(method, path, headers=headers)).status_code)
        for method, path in ASKED_CLOSED
        for case, headers in cases.items()
    ]


@pytest.mark.parametrize("settings", [*SETTINGS, {"auth": "required"}], ids=str)
async def test_a_malformed_key_is_refused(store_url: str, settings: dict[str, Any]) -> None:
    refusals = {401, 429} if settings["auth"] == "required" else {401}
    async with worker(store_url, **settings) as client:
        answer = await client.get("/models", headers=MALFORMED["no key"])
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert [each for each in await statuses(client, MALFORMED) if each[1] not in refusals] == []


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
async def test_a_well_formed_key_is_not_looked_up(store_url: str, settings: dict[str, Any]) -> None:
    async with worker(store_url, **settings) as client:
        assert [each for each in await statuses(client, ACCEPTED) if each[1] in (401, 403, 429)] == []


@pytest.mark.parametrize("auth", ["off", "required"])
async def test_open_operations_ignore_keys(store_url: str, auth: str) -> None:
    async with worker(store_url, auth=auth) as client:
        for method, path in ASKED_OPEN:
            plain = (await client.request(method, path)).status_code
            for headers in MALFORMED.values():
                assert (await client.request(method, path, headers=headers)).status_code == plain, path
