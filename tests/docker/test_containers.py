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
from service.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
PROFILES = ("monitoring", "cluster")
ALL_PROFILES = [chosen for n in range(3) for chosen in itertools.combinations(PROFILES, n)]
ONE_SHOT = {"secrets", "cluster"}  # services that end when their work is done
INGRESS = DOCKER / "kubernetes" / "ingress.yaml"
MANIFESTS = sorted((DOCKER / "kubernetes").glob("*.yaml"))


def tool(name: str) -> str:
    installed = Path(sys.executable).parent / name
    found = str(installed) if installed.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on this machine")
    return found


def resolved(*profiles: str, **environment: str) -> subprocess.CompletedProcess[str]:
    chosen = [option for profile in profiles for option in ("--profile", profile)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("COMPOSE", "WAGER"))}
    command = [tool("docker-compose"), "--file", str(ROOT / "docker-compose.yml"), *chosen, "config"]
    return subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, env=clean | environment, check=False
    )


def compose(*profiles: str, **environment: str) -> dict[str, Any]:
    done = resolved(*profiles, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    config: dict[str, Any] = json.loads(done.stdout)
    return config


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose(*PROFILES)["services"]
    return found


# --- the image


@pytest.mark.parametrize("name", ["Dockerfile", "test.Dockerfile"])
def test_hadolint_finds_no_fault(name: str) -> None:
    done = subprocess.run([tool("hadolint"), str(DOCKER / name)], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_the_build_context_is_what_the_image_copies() -> None:
    lines = [line.split() for line in (DOCKER / "Dockerfile").read_text().splitlines()]
    copied = {name for words in lines if words[:1] == ["COPY"] and "--from" not in words[1] for name in words[1:-1]}
    let_through = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in let_through if line.startswith("!")} == copied
    assert let_through[1] == "*"
    assert all((ROOT / name).exists() for name in copied)
    assert [words[1] for words in lines if words[:1] == ["USER"]] == ["10001:10001"]  # not root, and a number


# --- compose


@pytest.mark.parametrize("profiles", ALL_PROFILES, ids=lambda chosen: "+".join(chosen) or "none")
def test_compose_accepts_the_file(profiles: tuple[str, ...]) -> None:
    names = set(compose(*profiles)["services"])
    assert {"secrets", "valkey", "worker", "balancer"} <= names
    assert ("grafana" in names) == ("prometheus" in names) == ("monitoring" in profiles)
    assert sum(name.startswith("valkey-") for name in names) == 6 * ("cluster" in profiles)


def test_every_service_is_unprivileged_limited_and_pinned(services: dict[str, dict[str, Any]]) -> None:
    """No service is root or can gain rights; lasting ones have checks, restarts and limits; tags are versions."""
    for name, service in services.items():
        assert int(service["user"].split(":")[0]) > 0, name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert "container_name" not in service, name  # a fixed name would forbid scaling
        assert service["image"].partition(":")[2].lstrip("v")[:1].isdigit(), name
        assert service["restart"] == ("no" if name in ONE_SHOT else "unless-stopped"), name
        if name not in ONE_SHOT:
            assert service["healthcheck"]["test"], name
            assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name
    assert {services[name]["image"] for name in ("worker", "secrets")} == {f"wager:{__version__}"}
    stores = [service for name, service in services.items() if name.startswith("valkey")]
    volumes = {mount["source"] for store in stores for mount in store["volumes"] if mount["target"] == "/data"}
    assert len(volumes) == len(stores) == 7
    config = (DOCKER / "valkey.conf").read_text().splitlines()
    assert {"appendonly yes", "maxmemory-policy noeviction"} <= set(config)


def test_only_loopback_is_published_by_default(services: dict[str, dict[str, Any]]) -> None:
    ports = {(name, port["host_ip"]) for name, service in services.items() for port in service.get("ports", [])}
    assert ports == {(name, "127.0.0.1") for name in ("balancer", "prometheus", "grafana")}
    inner = [name for name in services if name.startswith(("valkey", "worker", "cluster"))]
    assert all(list(services[name]["networks"]) == ["inside"] for name in inner)
    assert compose()["networks"]["inside"]["internal"]


def test_publishing_requires_a_choice_about_keys() -> None:
    assert "set WAGER_AUTH" in resolved(WAGER_PUBLISH="0.0.0.0:80").stderr
    for found, expected in (
        (compose(WAGER_PUBLISH="0.0.0.0:80", WAGER_AUTH="required"), "required"),
        (compose(), "off"),
    ):
        assert found["services"]["worker"]["environment"]["WAGER_AUTH"] == expected


def test_workers_drain_in_time_and_know_the_names_of_the_network() -> None:
    for added in ("", "wager.example"):
        service = compose(WAGER_ALLOWED_HOSTS=added)["services"]["worker"]
        given, grace = service["environment"], float(service["stop_grace_period"].removesuffix("s"))
        assert 2 < float(given["WAGER_DRAIN_SECONDS"]) < grace - Settings().graceful_shutdown_seconds
        hosts = Settings(allowed_hosts=given["WAGER_ALLOWED_HOSTS"]).allowed_host_list
        assert set(hosts) == {"balancer", "worker", added} - {""}


def test_everything_mounted_exists() -> None:
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
    made_by_hand = "prometheus/key"  # a service without keys refuses a malformed one
    urls = {"single/wager_store_url", "cluster/wager_store_url"}
    assert set(made[0]) == {"password", "grafana/password", made_by_hand, *urls}
    assert made[0] == made[2]
    assert [each.pop(made_by_hand) for each in made] == [f"wk_{'0' * 12}_{'0' * 64}\n"] * 3
    assert not set(made[0].values()) & set(made[1].values())
    own = f"wk_{'1' * 12}_{'1' * 64}"
    (folders[0] / made_by_hand).write_text(own)
    subprocess.run([tool("sh"), str(DOCKER / "secrets.sh"), str(folders[0])], check=True)
    assert (folders[0] / made_by_hand).read_text() == own
    assert made[0]["single/wager_store_url"] == f"redis://:{made[0]['password'].strip()}@valkey:6379/0\n"


def test_haproxy_accepts_its_configuration() -> None:
    version = subprocess.run([tool("haproxy"), "-v"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.split()[2].split(".")[:2])) < (3, 1):
        pytest.skip("this HAProxy does not support init-state")
    command = [tool("haproxy"), "-c", "-q", "-f", str(DOCKER / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- Kubernetes


def resources() -> list[dict[str, Any]]:
    return [resource for path in MANIFESTS for resource in yaml.safe_load_all(path.read_text())]


@pytest.mark.parametrize("resource", resources(), ids=lambda r: f"{r['kind']}-{r['metadata']['name']}")
def test_every_resource_follows_its_schema(resource: dict[str, Any]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(resource, "1.37", strict=True)


def test_pods_are_restricted() -> None:
    lasting = [r["spec"]["template"]["spec"] for r in resources() if r["kind"] in ("Deployment", "StatefulSet")]
    jobs = [r["spec"]["jobTemplate"]["spec"]["template"]["spec"] for r in resources() if r["kind"] == "CronJob"]
    assert (len(lasting), len(jobs)) == (2, 1)
    for pod in lasting + jobs:
        (container,) = pod["containers"]
        own = container["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        assert not pod["enableServiceLinks"]  # they would set WAGER_PORT for a Service named wager
        assert (own["readOnlyRootFilesystem"], own["allowPrivilegeEscalation"]) == (True, False)
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert pod in jobs or {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
        assert container["resources"]["limits"]["memory"]


def test_the_kustomization_lists_every_manifest() -> None:
    """It lists all manifests but the ingress, uses only files from its own folder, and sets the current image tag."""
    kustomization = yaml.safe_load((DOCKER / "kustomization.yaml").read_text())
    assert {DOCKER / name for name in kustomization["resources"]} == set(MANIFESTS) - {INGRESS}
    assert kustomization["images"] == [{"name": "wager", "newTag": __version__}]
    files = [name.partition("=")[2] for made in kustomization["configMapGenerator"] for name in made["files"]]
    assert all((DOCKER / name).exists() and ".." not in name for name in files)


def test_the_backup_reaches_the_store_and_makes_a_whole_backup(tmp_path: Path) -> None:
    (job,) = [each["spec"]["jobTemplate"]["spec"]["template"] for each in resources() if each["kind"] == "CronJob"]
    (container,) = job["spec"]["containers"]
    (tmp_path / "wager").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "wager").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(container["args"], env=environment, capture_output=True, text=True, check=True)
    verb, folder, *options = done.stdout.split()
    assert (verb, Path(folder).parent, options) == ("backup", Path("/backups"), ["--all", "--json"])
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    claims = {each["name"]: each.get("persistentVolumeClaim", {}).get("claimName") for each in job["spec"]["volumes"]}
    volumes = [each["metadata"]["name"] for each in resources() if each["kind"] == "PersistentVolumeClaim"]
    assert [claims[mounts["/backups"]]] == volumes
    assert mounts[container["env"][0]["value"]] == "secrets"
    policies = {each["metadata"]["name"]: each["spec"] for each in resources() if each["kind"] == "NetworkPolicy"}
    (out,), (into,) = policies["backup"]["egress"], policies["valkey"]["ingress"]
    assert policies["backup"]["podSelector"]["matchLabels"] == job["metadata"]["labels"]
    assert out["to"] == [{"podSelector": policies["valkey"]["podSelector"]}]
    assert out["ports"] == into["ports"]
    assert {"podSelector": policies["backup"]["podSelector"]} in into["from"]


def test_the_ingress_has_tls_for_all_of_its_hosts() -> None:
    ingress = yaml.safe_load(INGRESS.read_text())
    (rule,), (tls,) = ingress["spec"]["rules"], ingress["spec"]["tls"]
    assert tls["hosts"] == [rule["host"]]
    service = rule["http"]["paths"][0]["backend"]["service"]
    ports = {
        (each["metadata"]["name"], port["name"])
        for each in resources()
        if each["kind"] == "Service"
        for port in each["spec"]["ports"]
    }
    assert (service["name"], service["port"]["name"]) in ports
    largest = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert largest == f"{Settings().max_import_bytes // 2**20}m"


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
