"""Controls the running stack: Compose, its containers, the balancer's metrics, and load."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.servers import wait_until

URL = "http://127.0.0.1:18000"
PATIENCE = 180.0
"""Timeout in seconds, long enough for a busy machine."""
Check = Callable[[], str]
"""A check that raises on failure, and otherwise returns a short summary."""


def compose(*arguments: str) -> str:
    done = subprocess.run(["docker-compose", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"docker-compose {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout


def within(service: str, *command: str, index: int = 1) -> str:
    return compose("exec", "-T", "--index", str(index), service, *command)


def crash(service: str) -> None:
    program = within(service, "cat", "/proc/1/task/1/children").split()[0]
    within(service, "sh", "-c", f"(sleep 0.5; kill -9 {program}) > /dev/null 2>&1 &")  # after this command returns


def answers() -> bool:
    try:
        return httpx2.get(f"{URL}/readyz", timeout=2.0).status_code == 200
    except httpx2.HTTPError:
        return False


def workers_up() -> int:
    lines = within("balancer", "wget", "-q", "-O", "-", "http://127.0.0.1:8404/metrics").splitlines()
    prefix = 'haproxy_server_status{proxy="workers"'
    up_lines = [line for line in lines if line.startswith(prefix) and 'state="UP"' in line]
    assert up_lines, "the balancer reports no workers"
    return sum(line.endswith(" 1") for line in up_lines)


def scale(workers: int) -> float:
    started = time.monotonic()
    compose("up", "--detach", "--no-recreate", "--no-deps", "--scale", f"worker={workers}", "worker")
    wait_until(lambda: workers_up() == workers, PATIENCE)
    return time.monotonic() - started


@dataclass
class Load:
    """A run of `wager load`, which repeats only unanswered feedback, at its end."""

    report: dict[str, Any]
    code: int = -1
    output: str = ""

    @property
    def failed(self) -> int:
        kinds = [self.report[kind] for kind in ("predict", "feedback")]
        return sum(int(kind[how]) for kind in kinds for how in ("refused", "no_answer", "not_sent"))

    @property
    def wrong(self) -> int:
        audit = self.report["correctness"]
        return sum(int(audit[what]) for what in ("lost", "repeated", "altered", "unasked", "predictions_lost"))

    def __str__(self) -> str:
        kinds = [self.report[kind] for kind in ("predict", "feedback")]
        total = sum(int(kind["requests"]) for kind in kinds)
        longest = max(kind["latency_ms"]["max"] for kind in kinds)
        return f"{total} requests, {self.failed} failed, the slowest {longest:.0f} ms, {self.wrong} rounds wrong"


@contextmanager
def load(seconds: float, *options: str) -> Iterator[Load]:
    found = Load({})
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "report.json"
        command = [sys.executable, "-m", "service", "load", "--url", URL, "--seconds", str(seconds), *options]
        with subprocess.Popen([*command, "--json", str(written)], stdout=subprocess.PIPE, text=True) as process:
            try:
                yield found
            except BaseException:
                process.kill()
                raise
            found.output = process.communicate()[0]
            found.code = process.returncode
        assert written.exists(), found.output[-1000:]
        found.report = json.loads(written.read_text())


def start(*arguments: str, store: str = "single") -> float:
    os.environ["WAGER_STORE"] = store
    compose("--profile", "*", "down", "--volumes", "--timeout", "20")
    started = time.monotonic()
    compose(*arguments)
    wait_until(answers, PATIENCE)
    return time.monotonic() - started
