"""The law of `wager replay` under kill -9 of its client and of workers: each round once."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.servers import wait_until
from tests.service.wager import Wager, serve

ROUNDS, KILLS = 50_000, 8


def write_log(path: Path) -> None:
    """Write a log whose first feature is the number of the round."""
    lines = (f"{i},{i % 5},{'ab'[i % 2]},0.5,{i % 2}\n" for i in range(ROUNDS))
    path.write_text("x,y,label,propensity,reward\n" + "".join(lines))


def position(wager: Wager) -> int:
    """Return the number of rounds that the service has imported; -1 if it does not answer."""
    try:
        imports = httpx2.get(f"{wager.url}/models/log/imports").json().get("imports", [])
    except httpx2.HTTPError:
        return -1
    return imports[0]["position"] if imports else 0


def has_come_to(goal: int, wager: Wager, client: subprocess.Popen[bytes]) -> bool:
    """Check whether this number of rounds is imported, or the command has ended."""
    return position(wager) >= goal or client.poll() is not None


def client_of(wager: Wager, path: Path) -> subprocess.Popen[bytes]:
    """Start the command."""
    command = [sys.executable, "-m", "service", "replay", str(path), "--model", "log", "--create", "--json"]
    return subprocess.Popen([*command, "--url", wager.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def log_of(wager: Wager) -> list[Any]:
    """Return the first feature of each round of the log."""
    found = list[Any]()
    with httpx2.Client(base_url=wager.url, timeout=60) as client:
        while True:
            text = client.get("/models/log/rounds", params={"after": len(found), "limit": 10_000}).text
            if not text:
                return found
            found += [json.loads(line)["context"][0] for line in text.splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_clients_and_workers_import_each_round_once(tmp_path: Path) -> None:
    """Clients and workers are killed in turn; at the end the log has every round of the file once, in its order."""
    path = tmp_path / "log.csv"
    write_log(path)
    with serve(tmp_path, workers=2) as wager:
        client = client_of(wager, path)
        for number in range(1, KILLS + 1):
            goal = ROUNDS * number // (KILLS + 1)
            wait_until(partial(has_come_to, goal, wager, client), 300)
            assert client.poll() is None, client.communicate()
            if number % 2:
                client.kill()
                client.communicate()
                client = client_of(wager, path)
            else:
                os.kill(wager.worker_pids()[number // 2 % 2], signal.SIGKILL)
        stdout, stderr = client.communicate(timeout=300)
        assert client.returncode == 0, stderr
        assert json.loads(stdout)["position"] == ROUNDS
        described = httpx2.get(f"{wager.url}/models/log").json()
        assert (described["rounds_seen"], described["predictions"], described["correct"]) == (
            ROUNDS,
            ROUNDS,
            ROUNDS // 2,
        )
        assert position(wager) == ROUNDS
        assert log_of(wager) == list(range(ROUNDS))
