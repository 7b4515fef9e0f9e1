"""Checks of the profile `cluster`: three primaries with one replica each, and the loss of a primary."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from redis.crc import key_slot

from tests.docker.engine import PATIENCE, URL, Check, compose, crash, load, start, within, workers_up
from tests.servers import wait_until

NODES = [f"valkey-{number}" for number in range(1, 7)]
MODELS = [f"forest-{number}" for number in range(8)]
PATIENT = ("--rate", "30", "--connections", "16", "--models", "8")


def send(node: str, command: str) -> str:
    """Send a command to a node, and return its reply."""
    return within(node, "sh", "-c", f'REDISCLI_AUTH="$(cat /run/wager/password)" valkey-cli {command}')


def roles(node: str) -> dict[str, str]:
    """Return each node's role as seen by a reachable node."""
    lines = [line.split() for line in send(node, "cluster nodes").splitlines()]
    return {name_of(fields[1]): fields[2].removeprefix("myself,") for fields in lines}


def name_of(address: str) -> str:
    """Return the Compose service with this address."""
    return f"valkey-{int(address.partition(':')[0].rpartition('.')[2]) - 10}"


def owner(model: str, node: str) -> str:
    """Return the primary that stores a model."""
    slot = key_slot(f"{{{model}}}".encode())
    for fields in (line.split() for line in send(node, "cluster nodes").splitlines()):
        for first, _, last in (part.partition("-") for part in fields[8:] if part[0].isdigit()):
            if int(first) <= slot <= int(last or first):
                return name_of(fields[1])
    raise AssertionError(f"no primary has slot {slot}")


def is_whole(node: str) -> bool:
    """Check whether the cluster has three primaries and three replicas, and serves all slots."""
    found = sorted(roles(node).values())
    return found == ["master"] * 3 + ["slave"] * 3 and "cluster_state:ok" in send(node, "cluster info")


def check_start() -> str:
    """Check that all nodes join the cluster and that the service answers."""
    took = start("--profile", "cluster", "up", "--detach", "--scale", "worker=2", store="cluster")
    wait_until(lambda: workers_up() == 2, PATIENCE)
    apart = [node for node in NODES if not is_whole(node)]
    assert apart == [], apart
    return f"first answer after {took:.0f} s; {', '.join(f'{n} {r}' for n, r in sorted(roles(NODES[0]).items()))}"


def check_models() -> str:
    """Check that the models spread over all primaries, and that each model predicts and learns."""
    with httpx2.Client(base_url=URL, timeout=30.0) as client:
        for model in MODELS:
            body = {"name": model, "labels": ["a", "b"], "features": {"kind": "dense", "size": 2}}
            client.post("/models", json=body).raise_for_status()
            assert all(is_served(client, model) for _ in range(5)), model
        listed = sorted(each["name"] for each in client.get("/models").json()["models"])
        assert listed == MODELS, listed
    owners = {owner(model, NODES[0]) for model in MODELS}
    assert len(owners) == 3, owners
    with load(10, *PATIENT) as found:
        pass
    assert (found.failed, found.code) == (0, 0), (str(found), found.output[-1000:])
    return f"{len(MODELS)} models at {', '.join(sorted(owners))}; {found}"


def is_served(client: httpx2.Client, model: str) -> bool:
    """Check whether a model makes a prediction and accepts its feedback."""
    try:
        drawn = client.post("/predict", json={"model": model, "context": [0.6, 0.8]}).raise_for_status().json()
        feedback = {"prediction_id": drawn["prediction_id"], "correct": True}
        client.post("/feedback", json=feedback).raise_for_status()
    except httpx2.HTTPError:
        return False
    return True


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Poll every model in the background; yield each model's outage in seconds, from first to last failure."""
    failures: dict[str, list[float]] = {model: [] for model in MODELS}
    outages: dict[str, float] = {}
    ended = threading.Event()

    def watch(model: str) -> None:
        with httpx2.Client(base_url=URL, timeout=30.0) as client:
            while not ended.wait(0.2):
                if not is_served(client, model):
                    failures[model].append(time.monotonic())

    watchers = [threading.Thread(target=watch, args=(model,)) for model in MODELS]
    for watcher in watchers:
        watcher.start()
    try:
        yield outages
    finally:
        ended.set()
        for watcher in watchers:
            watcher.join()
    outages.update({model: max(times) - min(times) if times else 0.0 for model, times in failures.items()})


def lose(seconds: float, failure: str) -> str:
    """Crash the first model's primary, or stop it for good, under load; check the models, and report the outages."""
    lost = owner(MODELS[0], NODES[0])
    other = next(node for node in NODES if node != lost)
    hit = [model for model in MODELS if owner(model, other) == lost]
    with load(seconds, *PATIENT, "--settle", "120") as found, watched() as outages:
        time.sleep(3.0)
        crash(lost) if failure == "crash" else compose("kill", "--signal", "KILL", lost)
        time.sleep(5.0)
        wait_until(lambda: owner(MODELS[0], other) != lost or (failure == "crash" and is_whole(other)), PATIENCE)
        now = owner(MODELS[0], other)
        time.sleep(5.0)
        with httpx2.Client(base_url=URL, timeout=30.0) as client:
            wait_until(lambda: all(is_served(client, model) for model in MODELS), PATIENCE)
    audit = found.report["correctness"]
    assert all(audit[what] == 0 for what in ("repeated", "altered", "unasked")), audit
    outage = max(outages[model] for model in hit)
    other_outage = max(outages[model] for model in MODELS if model not in hit)
    assert other_outage < 5.0, outages
    compose("up", "--detach", "--no-recreate", "--no-deps", lost)
    wait_until(lambda: is_whole(other), PATIENCE)
    return (
        f"{lost}, then {now}: its {len(hit)} models unserved for {outage:.1f} s, the others for {other_outage:.1f} s; "
        f"{audit['lost']} of {audit['feedbacks_acknowledged']} acknowledged rounds lost; {found}"
    )


def check_crash() -> str:
    """Check that a crashed primary restarts with all its data."""
    return lose(30, "crash")


def check_loss() -> str:
    """Check that a replica takes over from a lost primary, which later returns as a replica."""
    return lose(45, "loss")


CHECKS: dict[str, Check] = {
    "start": check_start,
    "models": check_models,
    "crash of a primary": check_crash,
    "loss of a primary": check_loss,
}
