"""Troubles: a store that refuses, damaged data, a busy worker, slow bodies, models and requests that are too large."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from service.store import keys
from tests.recordings.chapters.teaching import DENSE, LABELS, contexts, teach
from tests.recordings.playing import Chapter, Play
from tests.service.actions.catalogue import item


def _requests(name: str) -> list[tuple[str, str, Any]]:
    x, path = contexts(1, 1)[0], f"/models/{name}"
    return [
        ("POST", "/predict", {"model": name, "context": x}),
        ("POST", "/predict/batch", {"model": name, "contexts": [x, [1.0]]}),
        ("POST", "/feedback", {"prediction_id": f"{name}:p", "correct": True}),
        ("POST", "/feedback/batch", {"feedback": [{"prediction_id": f"{name}:p", "correct": True}]}),
        ("POST", "/activate", {"prediction_id": f"{name}:p"}),
        ("POST", "/models", {"name": f"{name}-new", "labels": LABELS}),
        ("GET", path, None),
        ("GET", f"{path}/rounds", None),
        ("GET", f"{path}/statistics", None),
        ("POST", f"{path}/explain", {"context": x}),
        ("POST", f"{path}/snapshots", {}),
        ("POST", f"{path}/clone", {"name": f"{name}-clone"}),
        ("PATCH", path, {"window_seconds": 60.0}),
        ("PUT", f"{path}/shadows/rival", {"learner": "uniform"}),
        ("GET", "/readyz", None),
        ("GET", "/livez", None),
    ]


async def _send_all(play: Play, name: str) -> None:
    for method, path, body in _requests(name):
        await play.send(method, path, body, headers={"if-match": "*"} if method == "PATCH" else {})


async def _store(play: Play) -> None:
    name = await play.create("m", labels=LABELS, features=DENSE)
    await play.post("/predict", {"model": name, "context": contexts(1, 1)[0], "prediction_id": "p"})
    await play.store.command("CONFIG", "SET", "maxmemory", "1")
    await _send_all(play, name)
    await play.store.command("CONFIG", "SET", "maxmemory", "0")
    await play.get("/readyz")
    await play.store.command("REPLICAOF", "127.0.0.1", "1")
    await _send_all(play, name)


async def _open_predictions(play: Play) -> None:
    name = await play.create("m", labels=LABELS, features=DENSE)
    x = contexts(1, 1)[0]
    for id_ in ("a", "b", "a"):
        await play.post("/predict", {"model": name, "context": x, "prediction_id": id_})
    await play.post("/predict/batch", {"model": name, "contexts": [x, x]})
    await play.post("/feedback", {"prediction_id": f"{name}:a", "correct": True})
    await play.post("/predict", {"model": name, "context": x, "prediction_id": "b"})


async def _damage(play: Play) -> None:
    later = {"name": play.name("b"), "labels": LABELS, "features": DENSE, "learner": {"algorithm": "later"}}
    for of, field, value in (("a", "definition", "{"), ("b", "definition", json.dumps(later)), ("c", "rounds", "-1")):
        name = await play.create(of, labels=LABELS, features=DENSE)
        await play.store.command("HSET", keys.model(name), field, value)
        x, path = contexts(1, 1)[0], f"/models/{name}"
        await play.post("/predict", {"model": name, "context": x})
        await play.get(path)
        await play.get("/models")
        await play.send("PATCH", path, {"window_seconds": 60.0}, if_match="*")
        await play.post(f"{path}/explain", {"context": x})
        await play.get("/readyz")
        await play.send("DELETE", path)


async def _dripping(end: asyncio.Event) -> AsyncIterator[bytes]:
    yield b"{"
    await end.wait()


async def _slow(play: Play) -> None:
    for path in ("/predict", "/predict/batch", "/feedback", "/feedback/batch", "/models", "/models/a/import"):
        kind = "application/octet-stream" if path.endswith("import") else "application/json"
        await play.send("POST", path, content=_dripping(asyncio.Event()), content_type=kind)


async def _busy(play: Play) -> None:
    name = await play.create("m", labels=LABELS, features=DENSE)
    await play.store.command("CLIENT", "PAUSE", "500")
    first = asyncio.create_task(play.send("POST", "/predict", {"model": name, "context": contexts(1, 1)[0]}))
    await asyncio.sleep(0.1)
    await play.send("POST", "/predict", {"model": name, "context": contexts(1, 1)[0]})
    await first


async def _large(play: Play) -> None:
    many = [f"label-{number}" for number in range(300)]
    for learner in ("fastcb", "soba", "adaboost-olm", "fenchel-young-ranking"):
        body = {"name": play.name(learner), "labels": many, "features": {"kind": "dense", "size": 50}}
        await play.send("POST", "/models", body | {"learner": learner})
    named = {"kind": "named", "size": 1000}
    name = await play.create("a", features=named, actions={"features": named, "log_actions": "all"})
    items = [item(f"item-{number}", text="x" * 200) for number in range(1000)]
    await play.post("/predict", {"model": name, "context": {}, "actions": items, "top": 100})
    await play.post("/predict", {"model": name, "context": {}, "actions": items, "include_distribution": True})
    name = await play.create("b", labels=LABELS, features=DENSE)
    await play.post("/predict/batch", {"model": name, "contexts": contexts(1, 600), "include_distribution": True})


async def _failing(play: Play) -> None:
    kind = "application/octet-stream"
    for algorithm in ("folklore", "fastcb"):
        name = await play.create(algorithm, labels=LABELS, features=DENSE, learner=algorithm)
        await teach(play, name, contexts(1, 5), "true_label" if algorithm == "folklore" else "correct")
        file = (await play.send("GET", f"/models/{name}/export")).content
        for number, value in enumerate((np.nan, 1.7e308, -1e100, 1e60)):
            await play.send("POST", f"/models/{name}-{number}/import", content=_with(file, value), content_type=kind)
        await play.post("/predict", {"model": f"{name}-3", "context": contexts(1, 1)[0]})
        await play.post("/predict/batch", {"model": f"{name}-3", "contexts": contexts(1, 2)})


def _with(file: bytes, value: float) -> bytes:
    begin = 8 + int.from_bytes(file[:8], "little")
    content = bytearray(file)
    for name, part in json.loads(file[8:begin]).items():
        if name != "__metadata__" and part["dtype"] == "F64":
            start, stop = (begin + place for place in part["data_offsets"])
            content[start:stop] = np.full((stop - start) // 8, value).tobytes()
    return bytes(content)


async def _lag(play: Play) -> None:
    name = await play.create("m", labels=LABELS)
    await play.send("PUT", f"/models/{name}/shadows/rival", {"learner": "uniform"})
    rounds = [{"label": "red", "propensity": 0.25, "correct": True}] * 1000
    for number in range(11):
        await play.post(f"/models/{name}/rounds", {"source": "log", "offset": 1000 * number, "rounds": rounds})
    await play.post(f"/models/{name}/promote", {"shadow": "rival"}, if_match="*")


_SMALL = {"max_state_bytes": 2**20, "max_step_cost": 1_000_000, "max_distribution_numbers": 1000}

CHAPTERS = [
    Chapter("open-predictions", _open_predictions, {"max_open_bytes": 600}),
    Chapter("store-troubles", _store, {"store_timeout_seconds": 0.5}),
    Chapter("damage", _damage),
    Chapter("slow-bodies", _slow, {"body_timeout_seconds": 0.05}),
    Chapter("too-busy", _busy, {"max_requests_in_flight": 1}),
    Chapter("too-large", _large, _SMALL),
    Chapter("failing-learners", _failing),
    Chapter("lagging-shadow", _lag),
]
