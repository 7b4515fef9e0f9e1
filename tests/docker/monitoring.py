"""Checks of the profile `monitoring`: Prometheus finds every worker, alerts fire and end, dashboard queries have data.

Grafana does not run here, because Debian has no package of it.
"""

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


def query_api(path: str, **parameters: str) -> Any:
    """Query the HTTP API of Prometheus."""
    answer = httpx2.get(f"{PROMETHEUS}/{path}", params=parameters, timeout=10.0).raise_for_status().json()
    assert answer["status"] == "success", answer
    return answer["data"]


def targets_up(job: str) -> int:
    """Return the number of a job's targets that are up, or -1 if any is down."""
    targets = [target for target in query_api("targets")["activeTargets"] if target["labels"]["job"] == job]
    return len(targets) if all(target["health"] == "up" for target in targets) else -1


def firing() -> set[str]:
    """Return the firing alerts."""
    return {alert["labels"]["alertname"] for alert in query_api("alerts")["alerts"] if alert["state"] == "firing"}


def rules() -> list[dict[str, Any]]:
    """Return all rules with their evaluation state."""
    return [rule for group in query_api("rules")["groups"] for rule in group["rules"]]


def numbers(query: str) -> bool:
    """Check whether a query returns data, and finite numbers only."""
    found = query_api("query", query=query)["result"]
    return bool(found) and all(math.isfinite(float(series["value"][1])) for series in found)


def queries_of(path: Path, model: str) -> list[str]:
    """Return the queries of a dashboard's panels, with variables substituted as in Grafana."""
    queries = [target["expr"] for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]
    return [query.replace("$model", model).replace("$__rate_interval", "1m") for query in queries]


def is_ready() -> bool:
    """Check whether Prometheus has scraped every target successfully."""
    try:
        return [targets_up(job) for job in ("wager", "balancer", "prometheus")] == [2, 1, 1]
    except httpx2.HTTPError:
        return False


def check_start() -> str:
    """Check that Prometheus starts with the service."""
    took = start("--profile", "monitoring", "up", "--detach", "--scale", "worker=2", "balancer", "prometheus")
    wait_until(is_ready, PATIENCE)
    return f"first answer after {took:.0f} s; 2 workers, the balancer and Prometheus are scraped"


def check_scale() -> str:
    """Check that Prometheus scrapes new workers and drops removed ones."""
    for workers in (3, 2):
        scale(workers)
        wait_until(lambda expected=workers: targets_up("wager") == expected, PATIENCE)  # type: ignore[misc]
    return "3 workers, then 2"


def check_rules() -> str:
    """Check that Prometheus accepts its configuration and evaluates every rule without errors."""
    within("prometheus", "promtool", "check", "config", "/etc/prometheus/prometheus.yml")
    within("prometheus", "sh", "-c", "cd /etc/prometheus/tests && promtool test rules alerts_test.yml")
    wait_until(lambda: {rule["health"] for rule in rules()} == {"ok"}, PATIENCE)
    names = [rule["name"] for rule in rules()]
    assert names == re.findall(r"- alert: (\w+)", (DOCKER / "prometheus" / "alerts.yml").read_text()), names
    seen = firing()
    assert seen == set(), seen
    return f"{len(names)} alerts, none fires"


def check_dashboards() -> str:
    """Check that under traffic every dashboard query returns numbers."""
    with load(40, "--rate", "30", "--connections", "8", "--models", "2", "--keep"):
        pass
    model = query_api("label/model/values", **{"match[]": "wager_predictions_total"})[0]
    for _ in range(3):
        httpx2.post(f"{URL}/predict", json={"model": "nobody", "context": [1.0]}, timeout=10.0)
    queries = [query for path in DASHBOARDS for query in queries_of(path, model)]
    missing = set(queries)

    def all_seen() -> bool:
        missing.difference_update([query for query in missing if numbers(query)])
        return not missing

    try:
        wait_until(all_seen, 60.0)
    except TimeoutError:
        raise AssertionError(f"no numbers: {missing}") from None
    return f"{len(queries)} queries of {len(DASHBOARDS)} dashboards, of model {model}"


def check_alert(name: str, trouble: tuple[str, ...], remedy: tuple[str, ...]) -> str:
    """Check that an alert fires during an outage, and ends after it."""
    compose(*trouble)
    wait_until(lambda: name in firing(), PATIENCE)
    seen = firing()
    compose(*remedy)
    wait_until(lambda: name not in firing(), PATIENCE)
    return f"fired with {sorted(seen - {name})}, and ended"


def check_store_alert() -> str:
    """Check the alert WagerStoreDown."""
    return check_alert("WagerStoreDown", ("stop", "valkey"), ("start", "valkey"))


def check_workers_alert() -> str:
    """Check the alert WagerDown with no worker left to scrape."""
    workers = ("up", "--detach", "--no-recreate", "--no-deps", "--scale")
    return check_alert("WagerDown", (*workers, "worker=0", "worker"), (*workers, "worker=2", "worker"))


CHECKS: dict[str, Check] = {
    "start": check_start,
    "scale": check_scale,
    "rules": check_rules,
    "dashboards": check_dashboards,
    "store down": check_store_alert,
    "all workers down": check_workers_alert,
}
