"""Checks of the profile `cluster`: three primaries with one replica each, and the loss of a primary."""

import time

import httpx2

from tests.docker.engine import PATIENCE, URL, Check, compose, load, start, within, workers_up
from tests.servers import wait_until

NODES = [f"valkey-{number}" for number in range(1, 7)]
MODELS = [f"forest-{number}" for number in range(8)]
PATIENT = ("--rate", "30", "--connections", "16", "--models", "8")


def send(node: str, command: str) -> str:
    return within(node, "sh", "-c", f'REDISCLI_AUTH="$(cat /run/wager/password)" valkey-cli {command}')


def is_whole(node: str) -> bool:
    """Check whether the cluster has three primaries and three replicas, and serves all slots."""
    lines = [line.split() for line in send(node, "cluster nodes").splitlines()]
    roles = sorted(fields[2].removeprefix("myself,") for fields in lines)
    return roles == ["master"] * 3 + ["slave"] * 3 and "cluster_state:ok" in send(node, "cluster info")


def are_served() -> bool:
    """Check whether each model makes a prediction and accepts its feedback."""
    try:
        with httpx2.Client(base_url=URL, timeout=30.0) as client:
            for model in MODELS:
                drawn = client.post("/predict", json={"model": model, "context": [0.6, 0.8]}).raise_for_status().json()
                feedback = {"prediction_id": drawn["prediction_id"], "correct": True}
                client.post("/feedback", json=feedback).raise_for_status()
    except httpx2.HTTPError:
        return False
    return True


def check_start() -> str:
    took = start("--profile", "cluster", "up", "--detach", "--scale", "worker=2", store="cluster")
    wait_until(lambda: workers_up() == 2, PATIENCE)
    apart = [node for node in NODES if not is_whole(node)]
    assert apart == [], apart
    return f"first answer after {took:.0f} s"


def check_models() -> str:
    with httpx2.Client(base_url=URL, timeout=30.0) as client:
        for model in MODELS:
            body = {"name": model, "labels": ["a", "b"], "features": {"kind": "dense", "size": 2}}
            client.post("/models", json=body).raise_for_status()
    assert are_served()
    with load(10, *PATIENT) as found:
        pass
    assert (found.failed, found.code) == (0, 0), (str(found), found.output[-1000:])
    return str(found)


def check_loss() -> str:
    """Check that a replica takes over from a lost primary, which later returns as a replica, and no round is wrong."""
    lost = next(node for node in NODES if "role:master" in send(node, "info replication"))
    other = next(node for node in NODES if node != lost)
    with load(45, *PATIENT, "--settle", "120") as found:
        time.sleep(3.0)
        compose("kill", "--signal", "KILL", lost)
        wait_until(lambda: "fail" in send(other, "cluster nodes"), PATIENCE)
        wait_until(lambda: "cluster_state:ok" in send(other, "cluster info") and are_served(), PATIENCE)
    audit = found.report["correctness"]
    assert all(audit[what] == 0 for what in ("repeated", "altered", "unasked")), audit
    compose("up", "--detach", "--no-recreate", "--no-deps", lost)
    wait_until(lambda: is_whole(other), PATIENCE)
    assert "role:slave" in send(lost, "info replication")
    return f"{lost}; {audit['lost']} acknowledged rounds lost; {found}"


CHECKS: dict[str, Check] = {"start": check_start, "models": check_models, "loss of a primary": check_loss}
