"""The profile `monitoring`: Prometheus finds every worker, alerts fire and end, the dashboards' queries are answered.

Grafana itself is not run: its package is not in Debian.
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


def ask(path: str, **parameters: str) -> Any:
    """What Prometheus answers."""
    answer = httpx2.get(f"{PROMETHEUS}/{path}", params=parameters, timeout=10.0).raise_for_status().json()
    assert answer["status"] == "success", answer
    return answer["data"]


def targets_up(job: str) -> int:
    """How many targets of a job answer Prometheus; -1 while some do not."""
    targets = [target for target in ask("targets")["activeTargets"] if target["labels"]["job"] == job]
    return len(targets) if all(target["health"] == "up" for target in targets) else -1


def firing() -> set[str]:
    """The alerts that fire."""
    return {alert["labels"]["alertname"] for alert in ask("alerts")["alerts"] if alert["state"] == "firing"}


def rules() -> list[dict[str, Any]]:
    """All rules, as Prometheus evaluates them."""
    return [rule for group in ask("rules")["groups"] for rule in group["rules"]]


def numbers(query: str) -> bool:
    """Whether a query is answered, with numbers only."""
    found = ask("query", query=query)["result"]
    return bool(found) and all(math.isfinite(float(series["value"][1])) for series in found)


def queries_of(path: Path, model: str) -> list[str]:
    """The queries of a dashboard's panels, with the variables as Grafana fills them in."""
    queries = [target["expr"] for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]
    return [query.replace("$model", model).replace("$__rate_interval", "1m") for query in queries]


def is_ready() -> bool:
    """Whether Prometheus has asked everybody there is."""
    try:
        return [targets_up(job) for job in ("wager", "balancer", "prometheus")] == [2, 1, 1]
    except httpx2.HTTPError:
        return False


def check_start() -> str:
    """Prometheus starts beside the service."""
    took = start("--profile", "monitoring", "up", "--detach", "--scale", "worker=2", "balancer", "prometheus")
    wait_until(is_ready, PATIENCE)
    return f"first answer after {took:.0f} s; 2 workers, the balancer and Prometheus are asked, and answer"


def check_scale() -> str:
    """Prometheus asks new workers, too, and forgets those that are gone."""
    for workers in (3, 2):
        scale(workers)
        wait_until(lambda expected=workers: targets_up("wager") == expected, PATIENCE)  # type: ignore[misc]
    return "3 workers, then 2"


def check_rules() -> str:
    """Prometheus takes the configuration and every rule, and meets no error when it evaluates them."""
    within("prometheus", "promtool", "check", "config", "/etc/prometheus/prometheus.yml")
    within("prometheus", "sh", "-c", "cd /etc/prometheus/tests && promtool test rules alerts_test.yml")
    wait_until(lambda: {rule["health"] for rule in rules()} == {"ok"}, PATIENCE)
    names = [rule["name"] for rule in rules()]
    assert names == re.findall(r"- alert: (\w+)", (DOCKER / "prometheus" / "alerts.yml").read_text())
    assert firing() == set()
    return f"{len(names)} alerts, none fires"


def check_dashboards() -> str:
    """While there is traffic, every query of the dashboards is answered with numbers."""
    with load(40, "--rate", "30", "--connections", "8", "--models", "2", "--keep"):
        pass
    model = ask("label/model/values", **{"match[]": "wager_predictions_total"})[0]
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
    """An alert fires in its trouble, and ends with it."""
    compose(*trouble)
    wait_until(lambda: name in firing(), PATIENCE)
    seen = firing()
    compose(*remedy)
    wait_until(lambda: name not in firing(), PATIENCE)
    return f"fired with {sorted(seen - {name})}, and ended"


def check_store_alert() -> str:
    """WagerStoreDown."""
    return check_alert("WagerStoreDown", ("stop", "valkey"), ("start", "valkey"))


def check_workers_alert() -> str:
    """WagerDown, where no worker is left of which anything could be asked."""
    workers = ("up", "--detach", "--no-recreate", "--no-deps", "--scale")
    return check_alert("WagerDown", (*workers, "worker=0", "worker"), (*workers, "worker=2", "worker"))


CHECKS: dict[str, Check] = {
    "start": check_start,
    "scale": check_scale,
    "rules": check_rules,
    "dashboards": check_dashboards,
    "the store is gone": check_store_alert,
    "all workers are gone": check_workers_alert,
}
