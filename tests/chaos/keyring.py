"""The API keys of a chaos run. They are the same in every run; a service that requires no keys accepts them as well."""

import hashlib
import time
from functools import partial
from typing import Any

from service.access.key_admin import KeyAdmin
from service.store.redis.open_store import open_store

LIMIT = 2
"""Requests that the key METERED may make each second."""

_OWNERS: dict[str, dict[str, Any]] = {
    "crowd": {
        "scopes": ["admin"],
        "budgets": {"requests": "100000000/minute"},
    },  # never met, but each request is counted
    "metered": {"scopes": ["predict", "feedback"], "budgets": {"requests": f"{LIMIT}/second"}},
    "reader": {"scopes": ["read"]},
    "revoked": {"scopes": ["admin"]},
}


def _noise(owner: str, size: int = 38) -> bytes:
    return hashlib.blake2b(owner.encode(), digest_size=size).digest()


def _text(owner: str) -> str:
    noise = _noise(owner).hex()
    return f"wk_{noise[:12]}_{noise[12:]}"


CROWD, METERED, READER, REVOKED = map(_text, _OWNERS)
UNKNOWN = _text("nobody")


async def issue_keys(store_url: str) -> None:
    """Write the keys to a store, and revoke one of them."""
    opened = open_store(store_url, 10.0)
    try:
        for owner, fields in _OWNERS.items():
            await KeyAdmin(opened.api_keys, time.time, partial(_noise, owner)).create(owner, **fields)
        await KeyAdmin(opened.api_keys, time.time, partial(_noise, "nobody")).revoke(REVOKED.split("_")[1])
    finally:
        await opened.store.close()
