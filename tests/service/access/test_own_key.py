"""The laws of `GET /key`: it says what the key of the request may do, and nothing else is allowed."""

from datetime import datetime

import httpx2
import pytest

from service.access.keys import SCOPES, Scope
from tests.service.access.test_scopes import Guarded, guarded
from tests.service.keyed import bearer
from tests.service.workers import START, worker

__all__ = ["guarded"]


async def test_without_keys_everything_is_allowed(client: httpx2.AsyncClient) -> None:
    for path in ("/key", "/v1/key"):
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        found = answer.json()
        assert (found["id"], found["scopes"], found["models"], found["expires_at"]) == (None, list(SCOPES), "*", None)
        assert {*found["budgets"].values(), *found["used"].values()} == {None}


async def test_a_key_that_is_not_required_is_not_described(store_url: str) -> None:
    async with worker(store_url, auth="off") as client:
        answer = await client.get("/key", headers={"X-API-Key": f"wk_{'0' * 12}_{'0' * 64}"})
        assert (answer.status_code, answer.json()["id"]) == (200, None)


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_key_is_described(guarded: Guarded, scope: Scope) -> None:
    """The scopes are those that the key may use: one that it lists opens its operations, another one does not."""
    key = await guarded.keys.create("own", [scope], "shop-*", expires_in=60.0)
    found = (await guarded.client.get("/key", headers=bearer(key))).json()
    scopes = list(SCOPES) if scope == "admin" else [scope]
    assert (found["id"], found["scopes"], found["models"]) == (key.id, scopes, "shop-*")
    assert datetime.fromisoformat(found["expires_at"]).timestamp() == START + 60.0
    asked = {
        "read": await guarded.ask("GET", "/models", "shop-own", key),
        "predict": await guarded.ask("POST", "/predict", "shop-own", key),
        "feedback": await guarded.ask("POST", "/feedback", "shop-own", key),
        "admin": await guarded.ask("POST", "/models", "shop-own", key),
    }
    assert {each for each, answer in asked.items() if answer.status_code != 403} == set(scopes)


async def test_an_expired_key_is_not_described(guarded: Guarded) -> None:
    key = await guarded.keys.create("own", ["read"], expires_in=60.0)
    guarded.clock.now = START + 59.0
    assert (await guarded.client.get("/key", headers=bearer(key))).status_code == 200
    guarded.clock.now = START + 60.0
    assert (await guarded.client.get("/key", headers=bearer(key))).status_code == 401
    assert (await guarded.client.get("/key")).status_code == 401
