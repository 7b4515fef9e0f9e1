"""Without required keys: a malformed key is refused as with them, a well-formed one is not looked up."""

from typing import Any

import httpx2
import pytest

from service.api.middleware.access import need_of
from tests.service.api_description import api_description
from tests.service.workers import worker

_API: dict[str, Any] = api_description()
OPERATIONS = [
    (method.upper(), path.format(name="none", snapshot="kept", shadow="rival"))
    for path, item in _API["paths"].items()
    for method in item
]
CLOSED = [each for each in OPERATIONS if need_of(*each) is not None]
OPEN = [each for each in OPERATIONS if need_of(*each) is None] + [("GET", "/docs"), ("GET", "/openapi.json")]

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
    """Return the status of each case at each protected operation."""
    return [
        (f"{method} {path}, {case}", (await client.request(method, path, headers=headers)).status_code)
        for method, path in CLOSED
        for case, headers in cases.items()
    ]


@pytest.mark.parametrize("settings", [*SETTINGS, {"auth": "required"}], ids=str)
async def test_a_malformed_key_is_refused(store_url: str, settings: dict[str, Any]) -> None:
    """Every protected operation answers a malformed key with 401, even with keys off; with keys on, also with 429."""
    refusals = {401, 429} if settings["auth"] == "required" else {401}
    async with worker(store_url, **settings) as client:
        answer = await client.get("/models", headers=MALFORMED["no key"])
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert [each for each in await statuses(client, MALFORMED) if each[1] not in refusals] == []


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
async def test_a_well_formed_key_is_not_looked_up(store_url: str, settings: dict[str, Any]) -> None:
    """A well-formed key that was never issued gets the same answer as no key."""
    async with worker(store_url, **settings) as client:
        assert [each for each in await statuses(client, ACCEPTED) if each[1] in (401, 403, 429)] == []


@pytest.mark.parametrize("auth", ["off", "required"])
async def test_open_operations_ignore_keys(store_url: str, auth: str) -> None:
    """Health checks, the API's description and webhooks give the same answer with any key."""
    async with worker(store_url, auth=auth) as client:
        for method, path in OPEN:
            plain = (await client.request(method, path)).status_code
            for headers in MALFORMED.values():
                assert (await client.request(method, path, headers=headers)).status_code == plain, path
