"""Alerts, dashboards and the runbook refer to metrics that `/metrics` exposes, and to each other."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.__main__ import _ORDER
from service.observability.http_metrics import WorkerMetrics
from service.observability.model_metrics import ModelMetrics
from service.replicas.statistics import RoundStatistics
from service.replicas.sums import LabelSums
from service.store.capabilities import Store
from service.store.values import FeedbackStatus, ModelStats, StoreLoad

ROOT = Path(__file__).parents[1]
RUNBOOK = ROOT / "docs" / "guides" / "runbook.md"
ALERTS = ROOT / "docker" / "prometheus" / "alerts.yml"
DASHBOARDS = sorted((ROOT / "docker" / "grafana" / "dashboards").glob("*.json"))
PROMTOOL = shutil.which("promtool")

_METRIC = re.compile(r"\bwager_[a-z_]+\b")
_LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"")
_GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
_GIVEN_BY_OTHERS = {"job", "instance", "persistentvolumeclaim"}  # by Prometheus and the kubelet


class FullStore(Store):
    """A store that returns a value for every statistic."""

    async def read_load(self) -> StoreLoad:
        return StoreLoad(1, 2, 1, 1.0, 1.0)

    async def list_busiest(self, limit: int) -> list[str]:
        return ["m"][:limit]

    async def sum_open_bytes(self, names: Sequence[str]) -> int:
        return len(names)

    async def read_model_stats(self, name: str) -> ModelStats:
        sums = LabelSums((2,), (1.0,), (1.0,), (2,), (3.0,), (1.0,), (5.0,), (1.0,), (1.0,))
        counts = RoundStatistics(2, 1, weighed=2, labels=2, by_label=sums, chance=sums)
        return ModelStats(name, 2, 3, 1, dict.fromkeys(FeedbackStatus, 1), 1, 1.0, 2, counts.encode(), {1: 2})


def exposed_metrics() -> dict[str, set[str]]:
    metrics = WorkerMetrics()
    metrics.count_request("POST", "/predict", 200, 0.1)

    async def readable(_name: str) -> None: ...

    figures = ModelMetrics(FullStore(), lambda: 10.0, [], 10, readable)  # type: ignore[abstract]
    text = metrics.expose(asyncio.run(figures.read())).decode()
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            found.setdefault(name, set()).update(re.findall(r'([a-z_]+)="', labels))
    return found


def queries_of(dashboard: Any) -> list[str]:
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return panels + [variable["query"]["query"] for variable in dashboard["templating"]["list"]]


def alerts() -> dict[str, str]:
    parts = re.split(r"^\s+- alert: (\w+)$", ALERTS.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_query_exposed_metrics(path: Path) -> None:
    metrics = exposed_metrics()
    queries = queries_of(json.loads(path.read_text()))
    assert len(queries) > 10
    for query in queries:
        check_query(query, metrics)


def test_alerts_query_exposed_metrics() -> None:
    metrics = exposed_metrics()
    assert len(alerts()) >= 7
    for text in alerts().values():
        check_query(text.partition("for:")[0], metrics)


def check_query(query: str, metrics: dict[str, set[str]]) -> None:
    named = set(_METRIC.findall(query))
    assert named <= set(metrics), query
    assert named or "up{" in query, query
    grouped = {label.strip() for group in _GROUPED.findall(query) for label in group.split(",")}
    known = set().union(_GIVEN_BY_OTHERS, *(metrics[name] for name in named))
    assert grouped | set(_LABEL.findall(query)) <= known, query


def test_every_alert_is_in_the_runbook() -> None:
    sections = runbook()
    assert set(sections) == set(alerts())
    for name, text in alerts().items():
        assert f'runbook_url: "{{{{ $externalLabels.runbook }}}}#{name.lower()}"\n' in text
        assert all(word in sections[name] for word in ("**Means.**", "**Look at.**", "**Do.**"))


def runbook() -> dict[str, str]:
    sections = re.split(r"^## (Wager\w+)$", RUNBOOK.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(sections[::2], sections[1::2], strict=True))


@pytest.mark.parametrize("config", [ALERTS.parent / name for name in ("prometheus.yml", "kubernetes.yml")], ids=str)
def test_the_runbook_has_an_address(config: Path) -> None:
    """The address is a label of Prometheus, so that one line sets it, and alerts do not carry it as a label."""
    settings = yaml.safe_load(config.read_text())
    page = str(RUNBOOK.relative_to(ROOT))
    assert settings["global"]["external_labels"]["runbook"] == f"https://wager.example/{page}"
    dropped = [each for each in settings["alerting"]["alert_relabel_configs"] if each["action"] == "labeldrop"]
    assert [each["regex"] for each in dropped] == ["runbook"]


@pytest.mark.parametrize("name", alerts())
def test_each_section_of_the_runbook_has_commands(name: str) -> None:
    """They query exposed metrics, and use commands that exist; tests/service/commands/test_runbook.py runs calls."""
    blocks = re.findall(r"```sh\n(.*?)```", runbook()[name], re.DOTALL)
    assert blocks
    for line in "".join(blocks).splitlines():
        if line.startswith("ask "):
            check_query(line.replace("\\", ""), exposed_metrics())
        for used in re.findall(r"(?:^|\$W )wager (\w+)", line):
            assert used in _ORDER, line


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool on the PATH (Debian has it in the package prometheus)")
@pytest.mark.parametrize("arguments", [["check", "rules", "../alerts.yml"], ["test", "rules", "alerts_test.yml"]])
def test_prometheus_accepts_the_rules(arguments: list[str]) -> None:
    done = subprocess.run(
        [str(PROMTOOL), *arguments], cwd=ALERTS.parent / "tests", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
