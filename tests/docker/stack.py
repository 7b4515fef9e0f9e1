"""`python -m tests.docker.stack`: starts docker-compose.yml, and tries what the README says of it.

`docker/test.sh` builds the images, and starts what stands in for an engine. Each check prints a line.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from tests.servers import wait_until

URL = "http://127.0.0.1:18000"
MODEL = {"name": "stack", "labels": ["a", "b", "c"], "features": {"kind": "dense", "size": 2}}


def compose(*arguments: str) -> str:
    """What `docker-compose ARGUMENT...` prints."""
    done = subprocess.run(["docker-compose", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"docker-compose {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout


def within(service: str, *command: str) -> str:
    """What a command prints in the first container of a service."""
    return compose("exec", "-T", service, *command)


def workers_up() -> int:
    """How many workers the balancer counts on."""
    code = "import urllib.request as u; print(u.urlopen('http://balancer:8404/metrics').read().decode())"
    lines = within("worker", "python", "-c", code).splitlines()
    up_lines = [line for line in lines if line.startswith("haproxy_server_status") and 'state="UP"' in line]
    assert up_lines, "the balancer tells nothing of its workers"
    return sum(line.endswith(" 1") for line in up_lines)


def one_round(client: httpx2.Client) -> None:
    """One prediction and its feedback; raises unless both are answered."""
    drawn = client.post("/predict", json={"model": "stack", "context": [0.6, 0.8]}).raise_for_status().json()
    feedback = {"prediction_id": drawn["prediction_id"], "correct": drawn["label"] == "b"}
    client.post("/feedback", json=feedback).raise_for_status()


@contextmanager
def traffic() -> Iterator[list[str]]:
    """Rounds, one after another, from another thread; yields the list of what went wrong."""
    wrong: list[str] = []
    ended = threading.Event()

    def play() -> None:
        with httpx2.Client(base_url=URL, timeout=60.0) as client:  # a busy machine is slow, which is no failure
            while not ended.is_set():
                try:
                    one_round(client)
                except httpx2.HTTPError as error:
                    wrong.append(repr(error))

    player = threading.Thread(target=play)
    player.start()
    try:
        yield wrong
    finally:
        ended.set()
        player.join()


def rounds_seen() -> int:
    """The length of the model's log."""
    seen: int = httpx2.get(f"{URL}/models/stack", timeout=10.0).raise_for_status().json()["rounds_seen"]
    return seen


def answers() -> bool:
    """Whether a request is served."""
    try:
        return httpx2.get(f"{URL}/readyz", timeout=2.0).status_code == 200
    except httpx2.HTTPError:
        return False


def check_start() -> str:
    """`up` leads to a service that answers."""
    compose("down", "--volumes")
    started = time.monotonic()
    compose("up", "--detach", "--scale", "worker=2")
    wait_until(answers)
    httpx2.post(f"{URL}/models", json=MODEL, timeout=10.0).raise_for_status()
    with httpx2.Client(base_url=URL, timeout=10.0) as client:
        one_round(client)
    wait_until(lambda: workers_up() == 2)
    return f"{time.monotonic() - started:.0f} s"


def check_hardening() -> str:
    """No process of a container is root, has capabilities, may gain some, or can write to its file system."""
    for service in ("worker", "valkey", "balancer"):
        status = dict(
            line.split(":\t", 1) for line in within(service, "cat", "/proc/1/status").splitlines() if ":\t" in line
        )
        assert "0" not in status["Uid"].split(), (service, status["Uid"])
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0, (service, status["CapEff"])
        assert status["NoNewPrivs"] == "1", service
        mounts = [line.split() for line in within(service, "cat", "/proc/mounts").splitlines()]
        assert [fields[3].split(",")[0] for fields in mounts if fields[1] == "/"] == ["ro"], service
    return "worker, valkey, balancer"


def check_metrics_are_inside() -> str:
    """The balancer does not hand out a worker's figures."""
    assert httpx2.get(f"{URL}/metrics", timeout=5.0).status_code == 404
    return "404"


def check_scale(workers: int) -> str:
    """The balancer follows the number of workers, and no request fails on the way."""
    started = time.monotonic()
    with traffic() as wrong:
        compose("up", "--detach", "--no-recreate", "--scale", f"worker={workers}")
        wait_until(lambda: workers_up() == workers, 120.0)
        took = time.monotonic() - started
        time.sleep(2.0)
    assert wrong == [], wrong[:5]
    return f"{workers} workers, {took:.0f} s"


def check_kill_of_the_store() -> str:
    """A killed store loses no acknowledged round."""
    before = rounds_seen()
    compose("kill", "--signal", "KILL", "valkey")
    compose("up", "--detach", "--no-recreate", "--no-deps", "valkey")
    wait_until(answers)
    assert rounds_seen() == before
    return f"{before} rounds"


def main() -> None:
    """Runs the checks, one after another."""
    print("config", len(json.loads(compose("config", "--format", "json"))["services"]), "services", flush=True)  # noqa: T201
    checks = [
        ("start", check_start),
        ("hardening", check_hardening),
        ("metrics are inside", check_metrics_are_inside),
        ("scale up", lambda: check_scale(4)),
        ("scale down", lambda: check_scale(1)),
        ("kill of the store", check_kill_of_the_store),
    ]
    failed = 0
    for name, check in checks:
        try:
            print("passed", name, check(), flush=True)  # noqa: T201
        except (AssertionError, RuntimeError, TimeoutError, httpx2.HTTPError) as error:
            failed += 1
            print("FAILED", name, repr(error)[:1500], flush=True)  # noqa: T201
    print(f"{len(checks) - failed} passed, {failed} failed", flush=True)  # noqa: T201
    sys.exit(min(failed, 1))


if __name__ == "__main__":
    main()
