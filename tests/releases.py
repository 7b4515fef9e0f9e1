"""A release's store content, as a file: `python -m tests.releases` writes it for the current version.

The file stays in the repository. Every later version must open it (`test_upgrades.py`).
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import httpx2

from service import __version__
from service.compute import Compute
from service.environment import system_environment
from service.rounds.session_cache import SessionCache
from service.store.access.api_keys import ApiKeyTable
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from tests.servers import raw
from tests.service.keyed import bearer, key_admin_at
from tests.service.sample_models import LABELS
from tests.service.workers import START, Clock, worker

FOLDER = Path(__file__).parent / "data" / "releases"
ROUNDS = 12
DENSE, SPARSE = {"kind": "dense", "size": 3, "norm": "unit"}, {"kind": "sparse", "size": 50, "norm": "unit"}
MODELS: dict[str, dict[str, Any]] = {
    "dense": {"features": DENSE, "learner": {"algorithm": "squarecb"}},
    "sparse": {"features": SPARSE, "learner": {"algorithm": "soba-diagonal", "exploration": 0.1}},
    "ranking": {"features": DENSE, "learner": {"algorithm": "fenchel-young-ranking"}},
}


def context_of(model: str, i: int) -> Any:
    """Return the i-th context."""
    if model == "sparse":
        return {"indices": [i, i + 7], "values": [0.6, 0.8]}
    return [0.1 * i, 1.0, -0.5]


async def play(client: httpx2.AsyncClient, model: str, own_id: str, i: int) -> dict[str, Any]:
    """Request a prediction with a client's id."""
    body = {"model": model, "context": context_of(model, i), "prediction_id": own_id}
    made = await client.post("/predict", json=body)
    assert made.status_code == 200, made.text
    return dict(made.json())


async def judge(client: httpx2.AsyncClient, model: str, own_id: str, i: int) -> dict[str, Any]:
    """Give feedback on it."""
    truth: dict[str, Any] = {"true_labels": LABELS} if model == "ranking" else {"correct": i % 2 == 0}
    given = await client.post("/feedback", json={"prediction_id": f"{model}:{own_id}"} | truth)
    assert given.status_code == 200, given.text
    return dict(given.json())


async def live(store_url: str) -> dict[str, Any]:
    """Create models and play rounds on this version; return what its clients received."""
    store, clock = RedisStore(store_url, 10.0), Clock()
    key = await key_admin_at(ApiKeyTable(store.command), clock).create("a client", ["admin"])
    received: dict[str, Any] = {"key": key.text, "models": {}}
    async with worker(store_url, clock, auth="required") as client:
        client.headers.update(bearer(key))
        for model, fields in MODELS.items():
            assert (await client.post("/models", json={"name": model, "labels": LABELS} | fields)).status_code == 201
            for i in range(ROUNDS):
                await play(client, model, f"p{i}", i)
                await judge(client, model, f"p{i}", i)
                if i == ROUNDS // 2:
                    await _snapshot(store, model)
            open_one = await play(client, model, "open", ROUNDS)
            log = (await client.get(f"/models/{model}/rounds")).text.splitlines()
            received["models"][model] = {"open": open_one, "log": [json.loads(line) for line in log]}
    await store.close()
    return received


async def _snapshot(store: RedisStore, model: str) -> None:
    session = await SessionCache(system_environment(store, Compute(2)), 2**30).find(model, "model")
    await session.replica.catch_up()
    await session.replica.snapshot()


def dump(store_url: str) -> dict[str, Any]:
    """Return a store's whole content, by key, with bytes as hexadecimal digits."""
    with raw(store_url) as store:
        names = sorted(name.decode() for name in store.scan_iter("wager:*"))
        return {name: _content(store, name) for name in names}


def _text(name: bytes) -> str:
    """Decode a name, which another test may have damaged."""
    return name.decode(errors="backslashreplace")


def _content(store: Any, name: str) -> Any:
    match store.type(name).decode():
        case "string":
            return store.get(name).hex()
        case "hash":
            return {_text(field): value.hex() for field, value in sorted(store.hgetall(name).items())}
        case "zset":
            return {"members": [_text(member) for member in store.zrange(name, 0, -1)]}
        case "stream":
            entries = store.xrange(name)
            return [[id_.decode(), [[_text(k), v.hex()] for k, v in fields.items()]] for id_, fields in entries]
        case "list":
            return [item.hex() for item in store.lrange(name, 0, -1)]
        case other:
            raise TypeError(f"{name} is a {other}")


def restore(store_url: str, content: dict[str, Any]) -> None:
    """Write all of it into an empty store; predictions expire after an hour."""
    with raw(store_url) as store:
        for name, value in content.items():
            if isinstance(value, str):
                store.set(name, bytes.fromhex(value), ex=3600)
            elif isinstance(value, list):
                for id_, fields in value:
                    store.xadd(name, {k: bytes.fromhex(v) for k, v in fields}, id=id_)
            elif name.endswith(":models"):
                store.zadd(name, dict.fromkeys(value["members"], 0))
            else:
                store.hset(name, mapping={field: bytes.fromhex(one) for field, one in value.items()})


def main() -> None:
    """Write the file of the current version."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server:
        received = asyncio.run(live(server.url))
        FOLDER.mkdir(exist_ok=True)
        text = json.dumps({"start": START, "told": received, "store": dump(server.url)}, indent=1, sort_keys=True)
        (FOLDER / f"{__version__}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
