"""The laws of the Dockerfile, the compose file and the manifests that can be checked without a container engine."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from service import __version__
from service.access.keys import is_well_formed
from service.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
PROFILES = ("monitoring", "cluster")
ALL_PROFILES = [chosen for n in range(3) for chosen in itertools.combinations(PROFILES, n)]
ONE_SHOT = {"secrets", "cluster"}  # services that end when their work is done
MANIFESTS = sorted((DOCKER / "kubernetes").glob("*.yaml"))


def tool(name: str) -> str:
    """Return the path of a development tool, or skip the test if it is not installed."""
    installed = Path(sys.executable).parent / name
    found = str(installed) if installed.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on this machine")
    return found


def compose(*profiles: str, **environment: str) -> dict[str, Any]:
    """Return the compose file as Compose resolves it, with variables of the environment."""
    chosen = [option for profile in profiles for option in ("--profile", profile)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("COMPOSE", "WAGER"))}
    command = [
        tool("docker-compose"),
        "--file",
        str(ROOT / "docker-compose.yml"),
        *chosen,
        "config",
        "--format",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=clean | environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    config: dict[str, Any] = json.loads(done.stdout)
    return config


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    """Return the services of all profiles."""
    found: dict[str, dict[str, Any]] = compose(*PROFILES)["services"]
    return found


# --- the image


@pytest.mark.parametrize("name", ["Dockerfile", "test.Dockerfile"])
def test_hadolint_finds_no_fault(name: str) -> None:
    """Hadolint has no complaints about the Dockerfile."""
    done = subprocess.run([tool("hadolint"), str(DOCKER / name)], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_the_build_context_is_what_the_image_copies() -> None:
    """.dockerignore lets through exactly what the Dockerfile copies from the checkout."""
    lines = [line.split() for line in (DOCKER / "Dockerfile").read_text().splitlines()]
    copied = {name for words in lines if words[:1] == ["COPY"] and "--from" not in words[1] for name in words[1:-1]}
    let_through = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in let_through if line.startswith("!")} == copied
    assert let_through[1] == "*"
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_runs_without_root() -> None:
    """The last USER is a numeric, non-root id, so that Kubernetes can verify it."""
    users = [line.split()[1] for line in (DOCKER / "Dockerfile").read_text().splitlines() if line.startswith("USER ")]
    assert users == ["10001:10001"]


# --- compose


@pytest.mark.parametrize("profiles", ALL_PROFILES, ids=lambda chosen: "+".join(chosen) or "none")
def test_compose_accepts_the_file(profiles: tuple[str, ...]) -> None:
    """Compose accepts the file with every combination of profiles, without a warning."""
    names = set(compose(*profiles)["services"])
    assert {"secrets", "valkey", "worker", "balancer"} <= names
    assert ("grafana" in names) == ("prometheus" in names) == ("monitoring" in profiles)
    assert sum(name.startswith("valkey-") for name in names) == 6 * ("cluster" in profiles)


def test_every_service_is_unprivileged(services: dict[str, dict[str, Any]]) -> None:
    """No service is root, can write to its root file system, or has or can gain capabilities."""
    for name, service in services.items():
        assert int(service["user"].split(":")[0]) > 0, name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert "container_name" not in service, name  # a fixed name would forbid scaling


def test_every_lasting_service_has_health_check_restarts_and_limits(services: dict[str, dict[str, Any]]) -> None:
    """Each lasting service has a health check, a restart policy and limits; one-shot services do not restart."""
    for name, service in services.items():
        assert service["restart"] == ("no" if name in ONE_SHOT else "unless-stopped"), name
        if name not in ONE_SHOT:
            assert service["healthcheck"]["test"], name
            assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name


def test_every_image_is_pinned(services: dict[str, dict[str, Any]]) -> None:
    """Each image tag is a version; Wager's images have the version of this code."""
    for name, service in services.items():
        tag = service["image"].partition(":")[2]
        assert tag.lstrip("v")[:1].isdigit(), name
    assert {services[name]["image"] for name in ("worker", "secrets")} == {f"wager:{__version__}"}


def test_only_loopback_is_published_by_default(services: dict[str, dict[str, Any]]) -> None:
    """Only three ports are published, on loopback; the store and the workers are on an internal network."""
    ports = {(name, port["host_ip"]) for name, service in services.items() for port in service.get("ports", [])}
    assert ports == {(name, "127.0.0.1") for name in ("balancer", "prometheus", "grafana")}
    inner = [name for name in services if name.startswith(("valkey", "worker", "cluster"))]
    assert all(list(services[name]["networks"]) == ["inside"] for name in inner)
    assert compose()["networks"]["inside"]["internal"]


def test_publishing_requires_a_choice_about_keys() -> None:
    """Publishing beyond loopback requires an explicit WAGER_AUTH; on loopback it defaults to off."""
    command = [tool("docker-compose"), "--file", str(ROOT / "docker-compose.yml"), "config", "--format", "json"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("COMPOSE", "WAGER"))}
    public = clean | {"WAGER_PUBLISH": "0.0.0.0:80"}
    refused = subprocess.run(command, capture_output=True, text=True, env=public, check=False)
    assert "set WAGER_AUTH" in refused.stderr
    assert refused.returncode != 0
    done = subprocess.run(command, capture_output=True, text=True, env=public | {"WAGER_AUTH": "required"}, check=True)
    assert json.loads(done.stdout)["services"]["worker"]["environment"]["WAGER_AUTH"] == "required"
    assert compose()["services"]["worker"]["environment"]["WAGER_AUTH"] == "off"


def test_stores_are_durable(services: dict[str, dict[str, Any]]) -> None:
    """Every Valkey has a separate volume and an append-only file, and evicts nothing."""
    stores = [service for name, service in services.items() if name.startswith("valkey")]
    volumes = [mount["source"] for store in stores for mount in store["volumes"] if mount["target"] == "/data"]
    assert len(set(volumes)) == len(stores) == 7
    config = (DOCKER / "valkey.conf").read_text().splitlines()
    assert {"appendonly yes", "maxmemory-policy noeviction"} <= set(config)


def test_a_worker_can_drain_before_it_is_killed(services: dict[str, dict[str, Any]]) -> None:
    """Drain time and graceful shutdown fit in the grace period; the drain lets the balancer notice."""
    from service.settings import Settings  # noqa: PLC0415 - imported after the fixture that clears the environment

    assert services["worker"]["stop_grace_period"] == "15s"
    drain = float(services["worker"]["environment"]["WAGER_DRAIN_SECONDS"])
    assert 2 < drain < 15 - Settings().graceful_shutdown_seconds


def test_everything_mounted_exists() -> None:
    """Each file or folder of the checkout that a service mounts exists and is world-readable."""
    config = compose(*PROFILES)
    files = [Path(entry["file"]) for entry in config["configs"].values()]
    binds = [
        Path(m["source"]) for s in config["services"].values() for m in s.get("volumes", []) if m["type"] == "bind"
    ]
    for path in (*files, *binds):
        assert path.exists(), path
        assert path.stat().st_mode & 0o004, path


@pytest.mark.parametrize("script", sorted(DOCKER.glob("*.sh")), ids=lambda path: path.name)
def test_shell_scripts_parse(script: Path) -> None:
    """The shell that a script names can parse it."""
    shell = script.read_text().splitlines()[0].split()[-1].removeprefix("#!").rpartition("/")[2]
    subprocess.run([tool(shell), "-n", str(script)], check=True)


def test_secrets_are_generated_once(tmp_path: Path) -> None:
    """Secrets are one-line files; a second run keeps them, and each installation has different ones."""
    folders = [tmp_path / name for name in ("one", "two")]
    made = []
    for folder in (*folders, folders[0]):
        folder.mkdir(exist_ok=True)
        subprocess.run([tool("sh"), str(DOCKER / "secrets.sh"), str(folder)], check=True)
        made.append({str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()})
    made_by_hand = "prometheus/key"
    urls = {"single/wager_store_url", "cluster/wager_store_url"}
    assert set(made[0]) == {"password", "grafana/password", made_by_hand, *urls}
    assert made[0] == made[2]
    assert [each.pop(made_by_hand) for each in made] == [f"wk_{'0' * 12}_{'0' * 64}\n"] * 3
    assert not set(made[0].values()) & set(made[1].values())
    assert made[0]["single/wager_store_url"] == f"redis://:{made[0]['password'].strip()}@valkey:6379/0\n"


@pytest.mark.parametrize("kept", ["", f"wk_{'1' * 12}_{'1' * 64}"], ids=["empty", "own"])
def test_prometheus_sends_a_well_formed_key(tmp_path: Path, kept: str) -> None:
    """A service without keys refuses a malformed one. A key of the operator stays."""
    (tmp_path / "prometheus").mkdir()
    (tmp_path / "prometheus" / "key").write_text(kept)
    subprocess.run([tool("sh"), str(DOCKER / "secrets.sh"), str(tmp_path)], check=True)
    key = (tmp_path / "prometheus" / "key").read_text().strip()
    assert is_well_formed(key)
    assert not is_well_formed(kept) or key == kept


def test_haproxy_accepts_its_configuration() -> None:
    """HAProxy finds no error in the balancer's configuration."""
    version = subprocess.run([tool("haproxy"), "-v"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.split()[2].split(".")[:2])) < (3, 1):
        pytest.skip("this HAProxy does not support init-state")
    command = [tool("haproxy"), "-c", "-q", "-f", str(DOCKER / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_prometheus_scrapes_every_worker() -> None:
    """Prometheus finds workers by their service name and port."""
    config = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    found = jobs["wager"]["dns_sd_configs"][0]
    assert (found["names"], found["port"]) == (["worker"], 8000)
    assert config["rule_files"] == ["alerts.yml"]


def test_clients_may_use_the_names_of_the_network() -> None:
    """Without keys, workers accept the names of their own network, and those that the environment adds."""
    for added in ("", "wager.example"):
        hosts = compose(WAGER_ALLOWED_HOSTS=added)["services"]["worker"]["environment"]["WAGER_ALLOWED_HOSTS"]
        assert set(Settings(allowed_hosts=hosts).allowed_host_list) == {"balancer", "worker", added} - {""}


# --- Kubernetes


def resources() -> list[dict[str, Any]]:
    """Return all resources of the manifests."""
    return [resource for path in MANIFESTS for resource in yaml.safe_load_all(path.read_text())]


@pytest.mark.parametrize("resource", resources(), ids=lambda r: f"{r['kind']}-{r['metadata']['name']}")
def test_every_resource_follows_its_schema(resource: dict[str, Any]) -> None:
    """Each resource follows the schema of its kind, without unknown fields."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(resource, "1.37", strict=True)


def test_the_kustomization_lists_every_manifest() -> None:
    """The kustomization lists all manifests, uses only files from its own folder, and sets the current image tag."""
    kustomization = yaml.safe_load((DOCKER / "kustomization.yaml").read_text())
    assert {DOCKER / name for name in kustomization["resources"]} == set(MANIFESTS)
    assert kustomization["images"] == [{"name": "wager", "newTag": __version__}]
    files = [name.partition("=")[2] for made in kustomization["configMapGenerator"] for name in made["files"]]
    assert all((DOCKER / name).exists() and ".." not in name for name in files)


def test_workers_know_the_names_of_their_service() -> None:
    """Without keys, clients in the cluster may use each name of the service, from its own namespace or another one."""
    services = [each for each in resources() if each["kind"] == "Service"]
    own = {"app.kubernetes.io/name": "worker"}
    (name,) = [each["metadata"]["name"] for each in services if each["spec"]["selector"] == own]
    space = yaml.safe_load((DOCKER / "kustomization.yaml").read_text())["namespace"]
    (worker,) = [each for each in resources() if each["kind"] == "Deployment"]
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    (hosts,) = [each["value"] for each in container["env"] if each["name"] == "WAGER_ALLOWED_HOSTS"]
    expected = [name, f"{name}.{space}", f"{name}.{space}.svc", f"{name}.{space}.svc.cluster.local"]
    assert Settings(allowed_hosts=hosts).allowed_host_list == expected


def test_pods_are_restricted() -> None:
    """Every pod meets the restricted standard, with a read-only file system, probes and limits."""
    pods = [r["spec"]["template"]["spec"] for r in resources() if r["kind"] in ("Deployment", "StatefulSet")]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False  # they would set WAGER_PORT for a Service named wager
        (container,) = pod["containers"]
        own = container["securityContext"]
        assert own["readOnlyRootFilesystem"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
        assert container["resources"]["limits"]["memory"]
