"""The profile `monitoring`: Prometheus finds every worker, its alerts fire, and the dashboards' queries are answered."""

import json
import math
import re
from pathlib import Path
from typing import Any

import httpx2

from tests.docker.engine import PATIENCE, URL, Check, compose, load, scale, start, within
from tests.servers import wait_until

PROMETHEUS = "http://127.0.0.1:19090/api/v1"
DOCKER = Path(__file__).parents[2] / "docker"
DASHBOARDS = sorted((DOCKER / "grafana" / "dashboards").glob("*.json"))
PEACE = {"Rules", "Failures"}


def ask(path: str, **parameters: str) -> Any:
    """What Prometheus answers."""
    answer = httpx2.get(f"{PROMETHEUS}/{path}", params=parameters, timeout=10.0).raise_for_status().json()
    assert answer["status"] == "success", answer
    return answer["data"]


def targets_up(job: str) -> int:
    """How many targets of a job answer Prometheus, if it knows of no others."""
    targets = [target for target in ask("targets")["activeTargets"] if target["labels"]["job"] == job]
    up = sum(target["health"] == "up" for target in targets)
    return up if up == len(targets) else -1


def firing() -> set[str]:
    """The alerts that fire."""
    return {alert["labels"]["alertname"] for alert in ask("alerts")["alerts"] if alert["state"] == "firing"}


def check_start() -> str:
    """Prometheus starts beside the service."""
    took = start("--profile", "monitoring", "up", "--detach", "--scale", "worker=2", "balancer", "prometheus")
    wait_until(lambda: [targets_up(job) for job in ("wager", "balancer", "prometheus")] == [2, 1, 1], PATIENCE)
    return f"first answer after {took:.0f} s; 2 workers, the balancer and Prometheus are asked, and answer"


def check_scale() -> str:
    """Prometheus asks new workers, too, and forgets those that are gone."""
    for workers in (3, 2):
        scale(workers)
        wait_until(lambda expected=workers: targets_up("wager") == expected, PATIENCE)
    return "3 workers, then 2"


def check_rules() -> str:
    """Prometheus takes the configuration and every rule, and finds no error when it evaluates them."""
    within("prometheus", "promtool", "check", "config", "/etc/prometheus/prometheus.yml")
    within("prometheus", "sh", "-c", "cd /etc/prometheus/tests && promtool test rules alerts_test.yml")
    wait_until(lambda: {rule["health"] for rule in rules()} == {"ok"}, PATIENCE)
    names = [rule["name"] for rule in rules()]
    assert names == re.findall(r"- alert: (\w+)", (DOCKER / "prometheus" / "alerts.yml").read_text())
    assert firing() == set()
    return f"{len(names)} alerts, none fires"


def rules() -> list[dict[str, Any]]:
    """All rules, as Prometheus evaluates them."""
    return [rule for group in ask("rules")["groups"] for rule in group["rules"]]


def check_dashboards() -> str:
    """Every query of the dashboards is answered, with a number, while there is traffic."""
    with load(45, "--rate", "30", "--connections", "8", "--models", "2", "--keep"):
        pass
    httpx2.post(f"{URL}/predict", json={"model": "nobody", "context": []}, timeout=10.0)
    queries = [query for path in DASHBOARDS for query in queries_of(path)]
    wait_until(lambda: all(query in QUIET or numbers(query) for query in queries), 45.0)
    found = ask("label/model/values", **{"match[]": "wager_predictions_total"})
    assert len(found) == 2, found
    return f"{len(queries)} queries of {len(DASHBOARDS)} dashboards"
