"""Checks of the stack that `docker compose up` starts: one store, two workers, a balancer."""

import json
import time
from typing import Any

import httpx2

from learners.answers import answer_kind
from learners.registry import ALL_LEARNERS
from tests.docker.engine import PATIENCE, URL, Check, answers, compose, crash, load, scale, start, within, workers_up
from tests.servers import wait_until

LABELS = ["a", "b", "c"]
LASTING = ("worker", "valkey", "balancer")


def check_start() -> str:
    took = start("up", "--detach", "--scale", "worker=2")
    wait_until(lambda: workers_up() == 2, PATIENCE)
    return f"first answer after {took:.0f} s"


def check_health() -> str:
    wait_until(lambda: {each["Health"] for each in containers()} == {"healthy"}, PATIENCE)
    return f"{len(containers())} containers"


def containers() -> list[dict[str, Any]]:
    return [json.loads(line) for line in compose("ps", "--format", "json").splitlines()]


def check_hardening() -> str:
    for service in LASTING:
        status = dict(
            line.split(":\t", 1) for line in within(service, "cat", "/proc/1/status").splitlines() if ":\t" in line
        )
        assert "0" not in status["Uid"].split(), (service, status["Uid"])
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0, (service, status["CapEff"])
        assert status["NoNewPrivs"] == "1", service
        mounts = [line.split() for line in within(service, "cat", "/proc/mounts").splitlines()]
        assert [fields[3].split(",")[0] for fields in mounts if fields[1] == "/"] == ["ro"], service
    return ", ".join(LASTING)


def check_secrets() -> str:
    password = within("valkey", "cat", "/run/wager/password").strip()
    assert len(password) == 32, len(password)
    for service in LASTING:
        exposed = within(service, "sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2> /dev/null; true")
        assert password not in exposed, service
    assert password not in compose("logs"), "logs"
    refused = within("valkey", "sh", "-c", "valkey-cli get wager:models || true")
    assert "NOAUTH" in refused, refused
    return "required, and exposed nowhere"


def check_metrics_are_private() -> str:
    status = httpx2.get(f"{URL}/metrics", timeout=5.0).status_code
    assert status == 404, status
    return "404"


def check_kernels() -> str:
    with httpx2.Client(base_url=URL, timeout=60.0) as client:
        for algorithm in sorted(ALL_LEARNERS):
            play(client, algorithm)
    compiled = [within("worker", "find", "/tmp/wager-kernels", "-type", "f", index=index) for index in (1, 2)]
    assert compiled == ["", ""], compiled
    return f"{len(ALL_LEARNERS)} learners, nothing compiled"


def play(client: httpx2.Client, algorithm: str) -> None:
    features = {"kind": "dense", "size": 3, "norm": "unit"}
    body = {"name": algorithm, "labels": LABELS, "features": features, "learner": {"algorithm": algorithm}}
    client.post("/models", json=body).raise_for_status()
    several = answer_kind(ALL_LEARNERS[algorithm]) in ("label-set", "ranking")
    truth = {"true_labels": LABELS} if several else {"true_label": "b"}
    for _ in range(10):
        drawn = client.post("/predict", json={"model": algorithm, "context": [0.6, 0.0, 0.8]}).raise_for_status()
        feedback = {"prediction_id": drawn.json()["prediction_id"]} | truth
        client.post("/feedback", json=feedback).raise_for_status()
    if not several:
        client.get(f"/models/{algorithm}/evaluation").raise_for_status()


def check_scale() -> str:
    with load(30, "--rate", "40", "--connections", "16") as found:
        time.sleep(3.0)
        took = [f"{workers} workers after {scale(workers):.0f} s" for workers in (4, 1, 2)]
    assert found.failed == 0, (str(found), found.report["problems"])
    assert found.code == 0, found.output[-1000:]
    return f"{', '.join(took)}; {found}"


def check_worker_crash() -> str:
    with load(20, "--rate", "40", "--connections", "16") as found:
        time.sleep(5.0)
        crash("worker")
        started = time.monotonic()
        time.sleep(2.5)  # until the balancer has noticed
        wait_until(lambda: workers_up() == 2, PATIENCE)
        took = time.monotonic() - started
    assert found.failed <= 16, (str(found), found.report["problems"])  # one per connection
    assert found.code == 0, found.output[-1000:]
    return f"back after {took:.0f} s; {found}"


def check_store_crash() -> str:
    with load(20, "--rate", "40", "--connections", "16") as found:
        time.sleep(5.0)
        crash("valkey")
    assert found.code == 0, found.output[-1000:]
    return str(found)


def check_restart() -> str:
    with httpx2.Client(base_url=URL, timeout=30.0) as client:
        before = [client.get(f"/models/{name}").json() for name in sorted(ALL_LEARNERS)]
        compose("down")
        compose("up", "--detach")
        wait_until(answers, PATIENCE)
        after = [client.get(f"/models/{name}").json() for name in sorted(ALL_LEARNERS)]
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1] or pair[1]["rounds_seen"] != 10]
    assert changed == [], changed
    return f"{len(after)} models, {10 * len(after)} rounds"


CHECKS: dict[str, Check] = {
    "start": check_start,
    "health": check_health,
    "hardening": check_hardening,
    "secrets": check_secrets,
    "metrics are private": check_metrics_are_private,
    "kernels": check_kernels,
    "scale under load": check_scale,
    "crash of a worker": check_worker_crash,
    "crash of the store": check_store_crash,
    "restart": check_restart,
}
