"""A tenant's p99 while another tenant sends all that its budgets allow.

The run consists of short blocks: quiet ones, and in each third place one with the abuse. A block with the abuse is
compared with the quiet block before it; so is each quiet block after a quiet one, which shows by how much two blocks
differ anyway. Both are medians, because a busy neighbour of the machine disturbs some blocks. The other tenant waits as
long as `Retry-After` says. It runs in other processes, which get only processor time that nobody else wants, because a
real one would use another machine. A row without budgets shows what they prevent.
"""

import asyncio
import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.synchronize import Barrier, Event
from typing import Any

import httpx2
import numpy as np
import uvloop

from benchmarks.measurements.blocking import PER_SECOND, latencies
from benchmarks.report import Row, at_most, print_rows, seen
from benchmarks.server import Server, running
from benchmarks.traffic import D, K, prediction_bodies
from service.access.key_admin import KeyAdmin
from service.json_values import JsonMapping
from service.store.redis.open_store import open_store
from toolkit.load.client import Client, Target

# With what does not count, less than a percent of a worker's time: it delays less than a percent of other requests.
BUDGETS: JsonMapping = {"requests": "50/second", "models": 5, "open_bytes": "20MB", "compute_seconds": 0.05}
THREADS = 8  # requests of the other tenant in flight
_BLOCKS = 3  # quiet, quiet, abuse
_HISTORY = 20_000  # rounds of the other tenant's model


def definition(name: str) -> dict[str, Any]:
    """Return a model of a tenant."""
    features = {"kind": "dense", "size": D, "norm": "scale"}
    return {"name": name, "labels": [f"label-{k}" for k in range(K)], "features": features, "retain_rounds": _HISTORY}


def contexts(n: int, seed: int = 0) -> list[list[float]]:
    """Return contexts of a tenant's model."""
    found: list[list[float]] = np.random.default_rng(seed).normal(size=(n, D)).round(4).tolist()
    return found


# --- what the other tenant does, again and again


def read_histories(client: httpx2.Client, i: int) -> httpx2.Response:
    """Change a model, and read all that it remembers."""
    if i % 5 == 0:
        patch = {"labels": {"add": [f"more-{time.monotonic_ns()}-{k}" for k in range(20)]}}
        return client.patch("/models/bad-0", json=patch, headers={"If-Match": "*"})
    path = ("evaluation", "rounds?limit=1000", "changes", "statistics")[i % 5 - 1]
    return client.get(f"/models/bad-0/{path}")


def upload(client: httpx2.Client, i: int) -> httpx2.Response:
    """Upload a file that is no model, or a large batch."""
    if i % 2:
        octets = {"Content-Type": "application/octet-stream"}
        return client.post(f"/models/bad-new-{i}/import", content=bytes(2**22), headers=octets)
    rounds = [{"context": each, "true_label": "label-1"} for each in contexts(200, i)]
    return client.post("/models/bad-0/rounds", json={"source": f"s{i % 50}", "offset": 0, "rounds": rounds})


def hoard(client: httpx2.Client, i: int) -> httpx2.Response:
    """Ask for predictions, and give no feedback."""
    return client.post("/predict/batch", json={"model": "bad-0", "contexts": contexts(200, i)})


ABUSES: Mapping[str, Callable[[httpx2.Client, int], httpx2.Response]] = {
    "histories": read_histories,
    "uploads": upload,
    "open predictions": hoard,
}


def abuse(name: str, url: str, key: str, ready: Barrier, on: Event, counts: Any) -> None:
    """Abuse the service while `on` is set, with one request in flight, until the process is killed."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    i = os.getpid() * 1000
    ready.wait()
    with httpx2.Client(base_url=url, headers={"X-API-Key": key}, timeout=60.0) as client:
        while True:
            on.wait()
            answer, i = ABUSES[name](client, i), i + 1
            with counts.get_lock():
                counts[answer.status_code in (429, 507)] += 1
            if "retry-after" in answer.headers:
                time.sleep(int(answer.headers["retry-after"]))


# --- the measurement


async def keys_of(server: Server, budgets: JsonMapping) -> tuple[str, str, str]:
    """Create the keys of an administrator and of the two tenants, the second with these budgets."""
    opened = open_store(server.store_url, 10.0)
    admin = KeyAdmin(opened.api_keys, time.time, os.urandom)
    try:
        whole = await admin.create("administrator", ["admin"])
        good = await admin.create("a tenant", ["admin"], "good-*")
        bad = await admin.create("another tenant", ["admin"], "bad-*", None, budgets)
        return whole.text, good.text, bad.text
    finally:
        await opened.store.close()


async def p99s(server: Server, key: str, on: Event, seconds: float, turns: int) -> list[list[float]]:
    """Return the p99 of each block in seconds: for each turn, two quiet ones and one with the abuse."""
    target = Target.parse(f"http://127.0.0.1:{server.port}", key)
    found = list[list[float]]()
    async with Client(target, PER_SECOND, timeout=300.0) as client:
        for turn in range(turns):
            found.append([])
            for block in range(_BLOCKS):
                (on.set if block == _BLOCKS - 1 else on.clear)()
                bodies = prediction_bodies(["good-0"], int(seconds * PER_SECOND), turn * _BLOCKS + block)
                requests = iter([target.request("POST", "/predict", body) for body in bodies])
                found[-1].append(float(np.quantile(await latencies(client, requests, seconds), 0.99)))
    on.clear()
    return found


def prepare(server: Server, whole: str) -> None:
    """Create the models of both tenants, and a long history of the other one's."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", headers={"X-API-Key": whole}, timeout=60.0) as admin:
        for name in ("good-0", "bad-0"):
            admin.post("/models", json=definition(name)).raise_for_status()
        for start in range(0, _HISTORY, 1000):
            rounds = [{"context": each, "true_label": "label-1"} for each in contexts(1000, start)]
            body = {"source": "history", "offset": start, "rounds": rounds}
            admin.post("/models/bad-0/rounds", json=body).raise_for_status()


@contextlib.contextmanager
def abusing(name: str, url: str, key: str) -> Iterator[Event]:
    """Run the abuse in other processes whenever the event is set; print how many requests were answered and refused."""
    context = multiprocessing.get_context("spawn")
    ready, on, counts = context.Barrier(THREADS + 1), context.Event(), context.Array("q", 2)
    arguments = name, url, key, ready, on, counts
    others = [context.Process(target=abuse, args=arguments, daemon=True) for _ in range(THREADS)]
    for each in others:
        each.start()
    ready.wait()
    try:
        yield on
    finally:
        for each in others:
            each.kill()
            each.join()
    print(f"{name}: {counts[0]:,} requests answered, {counts[1]:,} refused", file=sys.stderr)


def measure(name: str, budgets: JsonMapping, seconds: float, turns: int) -> tuple[float, float]:
    """Return the change of p99 beside an abuse, and how much it differs between quiet blocks, in milliseconds."""
    with running(WAGER_AUTH="required") as server:
        whole, good, bad = asyncio.run(keys_of(server, budgets))
        prepare(server, whole)
        server.wait_until_quiet()
        with abusing(name, f"http://127.0.0.1:{server.port}", bad) as on:
            blocks = np.array(uvloop.run(p99s(server, good, on, seconds, turns))) * 1000
    return float(np.median(blocks[:, 2] - blocks[:, 1])), float(np.median(np.abs(blocks[:, 1] - blocks[:, 0])))


def rows(seconds: float = 5.0, turns: int = 12) -> list[Row]:
    """Return the table: each abuse within the budgets, and for a third of the turns without any."""
    found = []
    for name in ABUSES:
        what = f"a tenant's p99 beside {name}: change"
        found.append(at_most(what, *measure(name, BUDGETS, seconds, turns), "ms", 1.0))
        moved, differ = measure(name, {}, seconds, max(turns // 3, 1))
        found.append(seen(f"{what} without budgets", f"{moved:,.2f} ms", f"{differ:,.2f} ms", moved / differ))
    return found


if __name__ == "__main__":
    print_rows("Tenants", rows())
