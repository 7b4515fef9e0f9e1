"""The laws of scraping on Kubernetes: Prometheus sends a key from a secret, and `/metrics` needs it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.access.key_admin import KeyAdmin
from service.store.redis.open_store import open_store
from tests.service.keyed import key_admin_at
from tests.service.workers import worker

FOLDER = Path(__file__).parents[2] / "docker" / "prometheus"
CONFIG = yaml.safe_load((FOLDER / "kubernetes.yml").read_text())
MONITOR = yaml.safe_load((FOLDER / "kubernetes" / "service-monitor.yaml").read_text())
RESOURCES: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER / "kubernetes" / "prometheus.yaml").read_text()))
WORKERS: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER.parent / "kubernetes" / "workers.yaml").read_text()))


def named(resources: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Return the resource of a kind and a name."""
    return next(each for each in resources if (each["kind"], each["metadata"]["name"]) == (kind, name))


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: f"{r['kind']}-{r['metadata']['name']}")
def test_every_resource_of_prometheus_follows_its_schema(resource: dict[str, Any]) -> None:
    """Each resource follows the schema of its kind, without unknown fields."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(resource, "1.37", strict=True)


def test_prometheus_reads_the_key_of_the_secret() -> None:
    """The file of the scrape configuration is in the volume of the secret, and the workers' names and ports agree."""
    job = CONFIG["scrape_configs"][0]
    pod = named(RESOURCES, "Deployment", "prometheus")["spec"]["template"]["spec"]
    secret = next(each for each in pod["volumes"] if "secret" in each)
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert job["authorization"]["credentials_file"] == f"{mounts[secret['name']]}/key"
    assert secret["secret"]["secretName"] == MONITOR["spec"]["endpoints"][0]["authorization"]["credentials"]["name"]
    headless = named(RESOURCES, "Service", job["dns_sd_configs"][0]["names"][0])
    pods = named(WORKERS, "Deployment", "worker")["spec"]["template"]
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["selector"] == pods["metadata"]["labels"]
    assert job["dns_sd_configs"][0]["port"] == pods["spec"]["containers"][0]["ports"][0]["containerPort"]
    assert "annotations" not in pods["metadata"]


def test_the_service_monitor_selects_the_service() -> None:
    """The operator finds the service by its label, and its port by name."""
    service = named(WORKERS, "Service", "wager")
    assert MONITOR["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert MONITOR["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_the_kustomization_lists_the_files() -> None:
    """Everything that it names exists in its own folder; the operator's manifest is not applied with it."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    files = [name.partition("=")[2] for made in kustomization["configMapGenerator"] for name in made["files"]]
    assert all((FOLDER / name).exists() for name in [*kustomization["resources"], *files])
    assert kustomization["resources"] == ["kubernetes/prometheus.yaml"]


async def test_a_scrape_needs_the_key(store_url: str) -> None:
    """With keys on, the header of the scrape configuration opens `/metrics`; no key or a smaller one does not."""
    job = CONFIG["scrape_configs"][0]
    assert job["authorization"]["type"] == MONITOR["spec"]["endpoints"][0]["authorization"]["type"] == "Bearer"
    opened = open_store(store_url, 10.0)
    try:
        keys: KeyAdmin = key_admin_at(opened.api_keys)
        everything = await keys.create("prometheus", ["read"])
        some = await keys.create("some", ["read"], models="shop-*")
        other = await keys.create("other", ["predict"])
        async with worker(store_url, auth="required") as client:
            path = job.get("metrics_path", "/metrics")
            headers = [{}, *({"Authorization": f"Bearer {key.text}"} for key in (everything, some, other))]
            statuses = [(await client.get(path, headers=each)).status_code for each in headers]
        assert statuses == [401, 200, 403, 403]
    finally:
        await opened.store.close()
