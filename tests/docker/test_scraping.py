"""The laws of scraping on Kubernetes: Prometheus sends a key from a secret, and `/metrics` needs it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import bearer, key_admin_at
from tests.service.workers import worker

FOLDER = Path(__file__).parents[2] / "docker" / "prometheus"
CONFIG = yaml.safe_load((FOLDER / "kubernetes.yml").read_text())
MONITOR = yaml.safe_load((FOLDER / "kubernetes" / "service-monitor.yaml").read_text())
RESOURCES: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER / "kubernetes" / "prometheus.yaml").read_text()))
WORKERS: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER.parent / "kubernetes" / "workers.yaml").read_text()))


def named(resources: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(each for each in resources if (each["kind"], each["metadata"]["name"]) == (kind, name))


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: f"{r['kind']}-{r['metadata']['name']}")
def test_every_resource_of_prometheus_follows_its_schema(resource: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(resource, "1.37", strict=True)


def test_prometheus_reads_the_key_of_the_secret() -> None:
    job = CONFIG["scrape_configs"][0]
    pod = named(RESOURCES, "Deployment", "prometheus")["spec"]["template"]["spec"]
    secret = next(each for each in pod["volumes"] if "secret" in each)
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert job["authorization"]["credentials_file"] == f"{mounts[secret['name']]}/key"
    assert secret["secret"]["secretName"] == MONITOR["spec"]["endpoints"][0]["authorization"]["credentials"]["name"]
    service = named(WORKERS, "Service", "wager")
    assert MONITOR["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert MONITOR["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    headless = named(RESOURCES, "Service", job["dns_sd_configs"][0]["names"][0])
    pods = named(WORKERS, "Deployment", "worker")["spec"]["template"]
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["selector"] == pods["metadata"]["labels"]
    assert job["dns_sd_configs"][0]["port"] == pods["spec"]["containers"][0]["ports"][0]["containerPort"]
    assert "annotations" not in pods["metadata"]


async def test_a_scrape_needs_the_key(store: RedisStore, store_url: str) -> None:
    job = CONFIG["scrape_configs"][0]
    assert job["authorization"]["type"] == MONITOR["spec"]["endpoints"][0]["authorization"]["type"] == "Bearer"
    keys = key_admin_at(ApiKeyTable(store.command))
    everything, other = await keys.create("prometheus", ["read"]), await keys.create("other", ["predict"])
    async with worker(store_url, auth="required") as client:
        path = job.get("metrics_path", "/metrics")
        headers = [{}, bearer(everything), bearer(other)]
        statuses = [(await client.get(path, headers=each)).status_code for each in headers]
    assert statuses == [401, 200, 403]
