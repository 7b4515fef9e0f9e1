"""Embeddings beside named features: the time of lone predictions, and the bytes that each stores.

Requests of all models take turns on one connection, so that the ratios come from the same seconds.
"""

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

import httpx2
import numpy as np

from benchmarks.cost import memory_used
from benchmarks.report import Row, seen
from benchmarks.server import Server, running

NUMBERS, ACTIONS, ACTION_NUMBERS = 1536, 50, 384
_DIFFERENT = 32  # requests of each model, used in turn
_WARM_UP = 20
_VECTOR = {"type": "vector", "size": NUMBERS, "precision": "float32"}
_LOOK = {"type": "vector", "size": ACTION_NUMBERS, "precision": "float32"}
_LABELS = {"labels": ["a", "b", "c"]}
_NAMED = {"kind": "named"}

MODELS: dict[str, dict[str, Any]] = {
    "named": _LABELS | {"features": _NAMED},
    "vector": _LABELS | {"features": _NAMED | {"fields": {"user.embedding": _VECTOR}}},
    "double": _LABELS | {"features": _NAMED | {"fields": {"user.embedding": _VECTOR | {"precision": "float64"}}}},
    "dense": _LABELS | {"features": {"kind": "dense", "size": NUMBERS, "precision": "float32"}},
    "names": _LABELS | {"features": _NAMED},
    "products": _LABELS
    | {"features": _NAMED | {"fields": {"text": _VECTOR}, "interactions": [["text", "country"], ["text", "hour"]]}},
    "actions": {"features": _NAMED, "actions": {"features": _NAMED}},
    "looks": {"features": _NAMED, "actions": {"features": _NAMED | {"fields": {"look": _LOOK}}, "interactions": []}},
    "crossed": {"features": _NAMED, "actions": {"features": _NAMED | {"fields": {"look": _LOOK}}}},
    "new": {"features": _NAMED, "actions": {"features": _NAMED | {"fields": {"look": _LOOK}}, "interactions": []}},
    "lists": {"actions": {"features": {"kind": "dense", "size": ACTION_NUMBERS}}},
}


class Figures(NamedTuple):
    """The time and the memory of predictions of one model."""

    milliseconds: float  # median
    bytes: float  # of an open prediction in the store


def requests_of(name: str, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield requests for a model. Contexts differ; actions repeat, except in the model `new`."""
    items = _actions(name, rng)
    for i in itertools.count():
        items = _actions(name, rng) if name == "new" else items
        numbers = rng.normal(size=NUMBERS).round(6).tolist()
        few = {"country": "FR", "hour": i % 24, "device": "phone", "age": i % 80, "member": True}
        context: Any = {
            "vector": few | {"user": {"embedding": numbers}},
            "double": few | {"user": {"embedding": numbers}},
            "dense": numbers,
            "names": few | {f"part{j}": {f"n{k}": numbers[k] for k in range(j, NUMBERS, 2)} for j in (0, 1)},
            "products": few | {"text": numbers},
            "lists": {},
        }.get(name, few)
        yield {"model": name, "context": context} | ({} if items is None else {"actions": items})


def _actions(name: str, rng: np.random.Generator) -> list[dict[str, Any]] | None:
    if "actions" not in MODELS[name]:
        return None
    looks = rng.normal(size=(ACTIONS, ACTION_NUMBERS)).round(6).tolist()
    few = [{"price": i, "brand": f"b{i % 7}", "new": True} for i in range(ACTIONS)]
    if name == "lists":
        return [{"id": f"i{i}", "features": look} for i, look in enumerate(looks)]
    if name != "actions":
        few = [one | {"look": look} for one, look in zip(few, looks, strict=True)]
    return [{"id": f"i{i}", "features": features} for i, features in enumerate(few)]


def measure(server: Server, n: int) -> Mapping[str, Figures]:
    """Return the figures of each model after n predictions of each."""
    rng, taken = np.random.default_rng(5), {name: list[float]() for name in MODELS}
    with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60.0) as client:
        bodies = {}
        for name, definition in MODELS.items():
            answer = client.post("/models", json={"name": name} | definition)
            if answer.status_code not in (201, 409):
                raise RuntimeError(answer.text)
            given = itertools.islice(requests_of(name, rng), _DIFFERENT)
            bodies[name] = itertools.cycle([json.dumps(each).encode() for each in given])
        for i in range(n + _WARM_UP):
            for name, several in bodies.items():
                body, began = next(several), time.perf_counter()
                client.post("/predict", content=body, headers={"Content-Type": "application/json"}).raise_for_status()
                if i >= _WARM_UP:
                    taken[name].append(1000 * (time.perf_counter() - began))
        sizes = {name: _bytes(server, client, several, n) for name, several in bodies.items()}
    return {name: Figures(median(times), sizes[name]) for name, times in taken.items()}


def _bytes(server: Server, client: httpx2.Client, bodies: Iterator[bytes], n: int) -> float:
    before = memory_used(server)
    for body in itertools.islice(bodies, n):
        client.post("/predict", content=body, headers={"Content-Type": "application/json"}).raise_for_status()
    return (memory_used(server) - before) / n


PAIRS = [  # a model, what it is compared with, and what both are
    ("vector", "named", f"5 named features and a vector of {NUMBERS:,}; without it"),
    ("vector", "dense", f"5 named features and a vector of {NUMBERS:,}; a dense context of {NUMBERS:,}"),
    ("vector", "names", f"5 named features and a vector of {NUMBERS:,}; as {NUMBERS:,} names"),
    ("vector", "double", f"a vector of {NUMBERS:,} in float32; in float64"),
    ("products", "vector", f"a vector of {NUMBERS:,} with {2 * NUMBERS:,} products; without them"),
    ("looks", "actions", f"{ACTIONS} actions with a vector of {ACTION_NUMBERS} each; without"),
    ("looks", "lists", f"{ACTIONS} actions with a vector of {ACTION_NUMBERS} each; lists of {ACTION_NUMBERS}"),
    ("new", "looks", f"{ACTIONS} actions with a vector of {ACTION_NUMBERS} each, all new; all known"),
    ("crossed", "looks", f"{ACTIONS} actions, {ACTION_NUMBERS} numbers times 5 features of the context; no products"),
]


def rows(n: int = 200) -> list[Row]:
    """Return the rows of this section."""
    with running() as server:
        server.wait_until_quiet()
        found = measure(server, n)
    table = list[Row]()
    for one, other, what in PAIRS:
        times, sizes = zip(found[one], found[other], strict=True)
        for kind, unit, a, b in (("lone", "ms", *times), ("open", "bytes", *sizes)):
            table.append(seen(f"{kind} prediction, {what}", f"{a:,.2f} {unit}", f"{b:,.2f} {unit}", a / b))
    return table
