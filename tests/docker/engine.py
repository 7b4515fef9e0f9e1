"""What the suites do to the running stack: Compose, its containers, the balancer's figures, and load."""

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
"""Seconds within which anything happens on a busy machine."""
Check = Callable[[], str]
"""Raises when something is wrong, else says in a few words what was seen."""


def compose(*arguments: str) -> str:
    """What `docker-compose ARGUMENT...` prints."""
    done = subprocess.run(["docker-compose", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"docker-compose {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout


def within(service: str, *command: str, index: int = 1) -> str:
    """What a command prints in a container of a service."""
    return compose("exec", "-T", "--index", str(index), service, *command)


def crash(service: str) -> None:
    """Kills the program in a service's first container, as a fault would: its restart policy applies."""
    program = within(service, "cat", "/proc/1/task/1/children").split()[0]
    within(service, "sh", "-c", f"(sleep 0.5; kill -9 {program}) > /dev/null 2>&1 &")  # not while this is being asked


def answers() -> bool:
    """Whether a request is served."""
    try:
        return httpx2.get(f"{URL}/readyz", timeout=2.0).status_code == 200
    except httpx2.HTTPError:
        return False


def workers_up() -> int:
    """How many workers the balancer counts on."""
    lines = within("balancer", "wget", "-q", "-O", "-", "http://127.0.0.1:8404/metrics").splitlines()
    told = 'haproxy_server_status{proxy="workers"'
    up_lines = [line for line in lines if line.startswith(told) and 'state="UP"' in line]
    assert up_lines, "the balancer tells nothing of its workers"
    return sum(line.endswith(" 1") for line in up_lines)


def scale(workers: int) -> float:
    """Seconds until the balancer counts on so many workers, and no others."""
    started = time.monotonic()
    compose("up", "--detach", "--no-recreate", "--no-deps", "--scale", f"worker={workers}", "worker")
    wait_until(lambda: workers_up() == workers, PATIENCE)
    return time.monotonic() - started


@dataclass
class Load:
    """A run of `wager load`, which repeats no request but feedback without an answer, at its end."""

    report: dict[str, Any]
    code: int = -1
    said: str = ""

    @property
    def failed(self) -> int:
        """Requests that were refused, got no answer in time, or could not even be sent."""
        kinds = [self.report[kind] for kind in ("predict", "feedback")]
        return sum(int(kind[how]) for kind in kinds for how in ("refused", "no_answer", "not_sent"))

    @property
    def wrong(self) -> int:
        """Acknowledged rounds that the logs do not have as they were told."""
        audit = self.report["correctness"]
        return sum(int(audit[what]) for what in ("lost", "repeated", "altered", "unasked", "predictions_lost"))

    def __str__(self) -> str:
        """What it brought, in a line."""
        kinds = [self.report[kind] for kind in ("predict", "feedback")]
        total = sum(int(kind["requests"]) for kind in kinds)
        longest = max(kind["latency_ms"]["max"] for kind in kinds)
        return f"{total} requests, {self.failed} failed, the slowest {longest:.0f} ms, {self.wrong} rounds wrong"


@contextmanager
def load(seconds: float, *options: str) -> Iterator[Load]:
    """Loads the stack beside the body; what it found is there at the end of the block."""
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
            found.said = process.communicate()[0]
            found.code = process.returncode
        assert written.exists(), found.said[-1000:]
        found.report = json.loads(written.read_text())


def start(*arguments: str, store: str = "single") -> float:
    """Begins from nothing; seconds from `up` to the first request that is served."""
    os.environ["WAGER_STORE"] = store
    compose("--profile", "*", "down", "--volumes", "--timeout", "20")
    started = time.monotonic()
    compose(*arguments)
    wait_until(answers, PATIENCE)
    return time.monotonic() - started
