"""Checks of the profile `monitoring`: Prometheus finds every worker, alerts fire and end.

Grafana does not run here, because Debian has no package of it.
"""

import re
from pathlib import Path
from typing import Any

import httpx2

from tests.docker.engine import PATIENCE, Check, compose, start, within
from tests.servers import wait_until

PROMETHEUS = "http://127.0.0.1:19090/api/v1"
DOCKER = Path(__file__).parents[2] / "docker"


def query_api(path: str, **parameters: str) -> Any:
    answer = httpx2.get(f"{PROMETHEUS}/{path}", params=parameters, timeout=10.0).raise_for_status().json()
    assert answer["status"] == "success", answer
    return answer["data"]


def targets_up(job: str) -> int:
    targets = [target for target in query_api("targets")["activeTargets"] if target["labels"]["job"] == job]
    return len(targets) if all(target["health"] == "up" for target in targets) else -1


def firing() -> set[str]:
    return {alert["labels"]["alertname"] for alert in query_api("alerts")["alerts"] if alert["state"] == "firing"}


def rules() -> list[dict[str, Any]]:
    return [rule for group in query_api("rules")["groups"] for rule in group["rules"]]


def is_ready() -> bool:
    try:
        return [targets_up(job) for job in ("wager", "balancer", "prometheus")] == [2, 1, 1]
    except httpx2.HTTPError:
        return False


def check_start() -> str:
    took = start("--profile", "monitoring", "up", "--detach", "--scale", "worker=2", "balancer", "prometheus")
    wait_until(is_ready, PATIENCE)
    return f"first answer after {took:.0f} s; 2 workers, the balancer and Prometheus are scraped"


def check_rules() -> str:
    within("prometheus", "promtool", "check", "config", "/etc/prometheus/prometheus.yml")
    within("prometheus", "sh", "-c", "cd /etc/prometheus/tests && promtool test rules alerts_test.yml")
    wait_until(lambda: {rule["health"] for rule in rules()} == {"ok"}, PATIENCE)
    names = [rule["name"] for rule in rules()]
    assert names == re.findall(r"- alert: (\w+)", (DOCKER / "prometheus" / "alerts.yml").read_text()), names
    seen = firing()
    assert seen == set(), seen
    return f"{len(names)} alerts, none fires"


def check_store_alert() -> str:
    compose("stop", "valkey")
    wait_until(lambda: "WagerStoreDown" in firing(), PATIENCE)
    compose("start", "valkey")
    wait_until(lambda: "WagerStoreDown" not in firing(), PATIENCE)
    return "WagerStoreDown fired, and ended"


CHECKS: dict[str, Check] = {
    "start": check_start,
    "rules": check_rules,
    "store down": check_store_alert,
}
