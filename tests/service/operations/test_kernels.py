"""No worker compiles a kernel that `python -m learners` has not compiled: requests would wait for it.

The build of the image runs that command once. The file system of a worker's container is read-only.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2

from learners.answers import answer_kind
from learners.registry import ALL_LEARNERS
from learners.warming import parts
from service.store.embedded.server import EmbeddedServer
from tests.kernels import Compiled, compiled, compiled_since
from tests.service import exchanges
from tests.service.workers import worker

ROOT = Path(__file__).parents[3]
LABELS = ["a", "b", "c"]


async def use(store: Path) -> None:
    with EmbeddedServer(store) as server:
        await exchanges.page(server.url)
        async with worker(server.url) as client:
            for algorithm in sorted(ALL_LEARNERS):
                await play(client, algorithm)


async def play(client: httpx2.AsyncClient, algorithm: str) -> None:
    features = {"kind": "dense", "size": 3, "norm": "unit"}
    body = {"name": algorithm, "labels": LABELS, "features": features, "learner": {"algorithm": algorithm}}
    (await client.post("/models", json=body)).raise_for_status()
    several = answer_kind(ALL_LEARNERS[algorithm]) in ("label-set", "ranking")
    truth = {"true_labels": LABELS} if several else {"true_label": LABELS[1]}
    for _ in range(3):
        drawn = await client.post("/predict", json={"model": algorithm, "context": [0.6, 0.0, 0.8]})
        feedback = {"prediction_id": drawn.raise_for_status().json()["prediction_id"]} | truth
        (await client.post("/feedback", json=feedback)).raise_for_status()
    if not several:
        (await client.get(f"/models/{algorithm}/evaluation")).raise_for_status()


def compiled_by_worker(store: Path) -> Compiled:
    assert not any(compiled().values())
    for calls in parts().values():
        for call in calls:
            call()
    before = compiled()
    asyncio.run(use(store))
    return compiled_since(before)


def run(*arguments: str, **environment: str) -> str:
    command, variables = [sys.executable, *arguments], os.environ | environment
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


_COMPARE = """
import json, pathlib, sys
from tests.service.operations.test_kernels import compiled_by_worker
print(json.dumps(compiled_by_worker(pathlib.Path(sys.argv[1]))))
"""


def test_a_worker_needs_no_other_kernels(tmp_path: Path) -> None:
    assert json.loads(run("-c", _COMPARE, str(tmp_path))) == {}
