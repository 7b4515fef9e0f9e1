"""The laws of requests for a model whose learner another process is compiling."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from learners import kernel_cache
from learners.registry import LEARNERS, RECOMMENDED
from learners.warming import RULES, part_of
from service import kernels
from tests.servers import wait_until
from tests.service.wager import parent_of
from tests.service.workers import worker

GAPTRON = part_of(LEARNERS["gaptron"])


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The lock of a process that compiles into an empty cache."""
    monkeypatch.setattr(kernel_cache, "DEPENDENT_FOLDER", tmp_path)
    monkeypatch.setattr(kernels, "_ready", set())
    lock = kernel_cache.lock()
    assert lock is not None
    yield lock
    if kernel_cache.is_locked():
        os.close(lock)


async def create(client: httpx2.AsyncClient, name: str, **more: Any) -> None:
    model = {"name": name, "labels": ["a", "b"], "learner": "gaptron"} | more
    (await client.post("/models", json=model)).raise_for_status()


async def predict(client: httpx2.AsyncClient, name: str) -> httpx2.Response:
    return await client.post("/predict", json={"model": name})


async def asked_for(part: str) -> None:
    while not kernel_cache.asked_for([part]):  # noqa: ASYNC110 - it is a file
        await asyncio.sleep(0)


@pytest.mark.usefixtures("compiler")
async def test_a_prediction_waits_for_the_kernels_of_its_learner(store_url: str, name: str) -> None:
    async with worker(store_url) as client:
        await create(client, name)
        waiting = asyncio.create_task(predict(client, name))
        await asked_for(GAPTRON)
        assert (await client.get("/livez")).status_code == 200
        assert not waiting.done()
        kernel_cache.note_compiled(GAPTRON)
        assert (await waiting).status_code == 200


@pytest.mark.usefixtures("compiler")
async def test_a_model_with_rules_waits_for_their_kernels_too(store_url: str, name: str) -> None:
    kernel_cache.note_compiled(GAPTRON)
    async with worker(store_url) as client:
        await create(client, name, rules={"floor": {"a": 0.1}})
        waiting = asyncio.create_task(predict(client, name))
        await asked_for(RULES)
        kernel_cache.note_compiled(RULES)
        assert (await waiting).status_code == 200


@pytest.mark.parametrize("path", ["predict", "explain", "export"])
@pytest.mark.usefixtures("compiler")
async def test_a_long_wait_ends_with_a_time_to_try_again(
    store_url: str, name: str, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(kernels, "LONGEST_WAIT", 0.0)
    requests = {
        "predict": ("POST", "/predict", {"model": name}),
        "explain": ("POST", f"/models/{name}/explain", {}),
        "export": ("GET", f"/models/{name}/export", None),
    }
    method, url, body = requests[path]
    async with worker(store_url) as client:
        await create(client, name)
        refused = await client.request(method, url, json=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
        assert refused.json()["type"] == "urn:wager:problem:learner-not-ready"
        assert "gaptron" in refused.json()["detail"]
        assert (await client.get(f"/models/{name}")).json()["predictions"] == 0


@pytest.mark.usefixtures("compiler")
async def test_the_items_of_a_batch_wait_too(store_url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LONGEST_WAIT", 0.0)
    async with worker(store_url) as client:
        await create(client, name)
        answer = await client.post("/predict/batch", json={"model": name, "items": [{}, {}]})
        assert [each["status"] for each in answer.json()["predictions"]] == [503, 503]


async def test_nothing_waits_for_a_process_that_has_died(store_url: str, name: str, compiler: int) -> None:
    async with worker(store_url) as client:
        await create(client, name)
        waiting = asyncio.create_task(predict(client, name))
        await asked_for(GAPTRON)
        os.close(compiler)
        assert (await waiting).status_code == 200


@pytest.mark.usefixtures("compiler")
async def test_a_worker_is_ready_when_the_default_learner_is_compiled(store_url: str) -> None:
    async with worker(store_url) as client:
        assert (await client.get("/readyz")).json()["type"] == "urn:wager:problem:learner-not-ready"
        kernel_cache.note_compiled(part_of(RECOMMENDED))
        assert (await client.get("/readyz")).status_code == 200


@pytest.mark.usefixtures("compiler")
async def test_feedback_does_not_wait(store_url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with worker(store_url) as client:
        await create(client, name)
        kernel_cache.note_compiled(GAPTRON)
        made = (await predict(client, name)).json()
    monkeypatch.setattr(kernels, "_ready", set())
    (kernel_cache.DEPENDENT_FOLDER).rename(kernel_cache.DEPENDENT_FOLDER.with_name("before"))
    lock = kernel_cache.lock()
    assert lock is not None
    async with worker(store_url) as client:  # of a new version, whose kernels are not compiled
        feedback = {"prediction_id": made["prediction_id"], "correct": True}
        assert (await client.post("/feedback", json=feedback)).status_code == 200
    os.close(lock)


def test_the_processes_of_a_killed_compiler_free_the_cache(tmp_path: Path, compiler: int) -> None:
    command = [sys.executable, "-m", "learners", "--beside-service"]
    process = subprocess.Popen(command, env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, pass_fds=[compiler])
    os.close(compiler)
    wait_until(lambda: len(children_of(process.pid)) >= 2)
    process.kill()
    process.wait()
    wait_until(lambda: not kernel_cache.is_locked())


def children_of(pid: int) -> list[int]:
    return [
        int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal() and parent_of(int(each.name)) == pid
    ]


def test_one_process_compiles_at_a_time(compiler: int) -> None:
    assert kernel_cache.is_locked()
    assert kernel_cache.lock() is None
    os.close(compiler)
    assert not kernel_cache.is_locked()


@pytest.mark.usefixtures("compiler")
def test_a_part_is_compiled_for_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_cache.note_compiled(GAPTRON)
    assert kernel_cache.is_compiled(GAPTRON)
    monkeypatch.setattr(kernel_cache, "_machine", lambda: "another")
    assert not kernel_cache.is_compiled(GAPTRON)
