"""The laws of the supervisor: a worker that dies is replaced at once, whatever the supervisor waits for."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from service.commands.serve import Supervisor

LIMIT = 20.0
"""Seconds; the health check of the service waits longer for a worker that hangs."""


async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
    pass


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.SIGNALS", ())
    config = uvicorn.Config(f"{__name__}:app", workers=2, lifespan="off", timeout_worker_healthcheck=600)
    made = Supervisor(config, [])
    made.init_processes()
    yield made
    for process in made.processes:
        process.kill()
        process.join()


def test_a_death_ends_the_wait_for_a_health_check(supervisor: Supervisor) -> None:
    for _ in range(2):
        worker = supervisor.processes[0]
        worker.parent_conn.send(b"ping")
        os.kill(worker.pid or 0, signal.SIGKILL)
        while worker.parent_conn.poll(LIMIT):  # until the end, perhaps after an answer
            try:
                worker.parent_conn.recv()
            except (EOFError, ConnectionError):
                break
        else:
            pytest.fail("the pipe of a dead worker has no end")
        supervisor.keep_subprocess_alive()
        assert supervisor.processes[0] is not worker


def test_dead_workers_are_replaced(supervisor: Supervisor) -> None:
    before = list(supervisor.processes)
    supervisor.keep_subprocess_alive()
    assert supervisor.processes == before
    for each in before:
        os.kill(each.pid or 0, signal.SIGKILL)
        each.join()
    supervisor.keep_subprocess_alive()
    assert not set(supervisor.processes) & set(before)
    assert all(each.ping(LIMIT) for each in supervisor.processes)


def test_a_worker_that_cannot_start_is_started_later(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(supervisor.processes)
    os.kill(before[0].pid or 0, signal.SIGKILL)
    before[0].join()
    gone = tmp_path / "gone"
    gone.mkdir()
    with monkeypatch.context() as patched:
        patched.chdir(gone)
        gone.rmdir()
        supervisor.keep_subprocess_alive()
    supervisor.keep_subprocess_alive()
    assert supervisor.processes[0] not in before
    assert all(each.ping(LIMIT) for each in supervisor.processes)
