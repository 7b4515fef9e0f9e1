"""Small versions of the papers' experiments, and the committed pages of the large ones."""

import gzip
import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.papers.data.battery import BATTERY
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.data.traffic import TRAFFIC
from benchmarks.papers.lineup import EXPERIMENTS
from benchmarks.papers.pages import RESULTS

for _package in ("joblib", "matplotlib", "vowpalwabbit"):
    pytest.importorskip(_package, reason="needs the dependency group `bench`")

cli: Any = importlib.import_module("benchmarks.papers.cli")
drift_report: Any = importlib.import_module("benchmarks.papers.drift_report")

ROOT = Path(__file__).parents[2]
SHORT = ["--rounds", "100", "--seeds", "2", "--jobs", "1"]
EXPERIMENT = ["--rates", "0.03125,0.25", "--backend", "sequential"]
TABLES = ["--streams", "synsep", "--learners", "banditron,uniform,vowpal-wabbit", "--backend", "sequential"]
RIVALS = ["--new", "squarecb", "--old", "banditron", "--backend", "sequential"]
COMMANDS = {
    "groups": ["run", "groups", *SHORT, *EXPERIMENT, "--learners", "banditron,gaptron"],
    "defaults-synsep": ["defaults", *SHORT, *TABLES],
    "contest": ["contest", *SHORT, "--streams", "synsep,several", *RIVALS],
    "drift": ["drift", "--streams", "synnonsep", "--rounds", "2000", "--seeds", "1", "--jobs", "1"],
    "actions": ["actions", *SHORT],
    "boosting": ["boosting", *SHORT],
    "bandit-reduction": ["reduction", *SHORT, "--backend", "sequential"],
}
"""The command of each kind of page."""

LONG = {"groups", "contest", "bandit-reduction"}  # take half a minute each


def run(command: list[str], out: Path, code: int = 0) -> str:
    result = CliRunner().invoke(cli.app, [*command, "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def few_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (f"{','.join(str((7 * i + 13 * k) % 101) for k in range(16))}, {i % 10}\n" for i in range(100))
    (tmp_path / "pendigits.tra").write_text("".join(lines))
    monkeypatch.setattr(cli.actions_page, "ROUNDS", {"synnonsep": 100, "prices": 100})
    monkeypatch.setattr(cli.boosting_page, "STREAMS", {"pendigits": 100})
    monkeypatch.setattr(cli.reduction_page, "STREAMS", {"pendigits": 100})
    monkeypatch.setattr(drift_report, "SURVEYED", "synnonsep")
    monkeypatch.setattr(drift_report, "TABLE", [row for row in drift_report.TABLE if row.algorithm == "uniform"])
    monkeypatch.setattr(drift_report, "ENTRANTS", drift_report.ENTRANTS[:3])


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in COMMANDS])
@pytest.mark.usefixtures("few_streams")
def test_a_short_run_writes_its_page(name: str, tmp_path: Path) -> None:
    run([*COMMANDS[name], "--data", str(tmp_path), "--pages", str(tmp_path / "results")], tmp_path)
    page = (tmp_path / "results" / f"{name}.md").read_text()
    assert page.startswith("# ")
    assert re.search(r"^\|.*\| [0-9]", page, re.MULTILINE)
    shown = re.findall(r"\]\((.+?\.png)\)", page)
    assert all((tmp_path / "results" / figure).stat().st_size > 1000 for figure in shown)


def test_a_short_routing_run_writes_its_page(tmp_path: Path) -> None:
    lines = [
        {"prompt": f"word{i % 7}", "source": f"s{i % 2}", "rewards": [i % 2, 0.5, 0.3, 0.9], "costs": [1, 2, 9, 3]}
        for i in range(60)
    ]
    file = tmp_path / "routing" / "paretobandit_k4.jsonl.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    command = ["routing", "--data", str(tmp_path), "--seeds", "1", "--pages", str(tmp_path)]
    assert CliRunner().invoke(cli.app, command, catch_exceptions=False).exit_code == 0
    page = (tmp_path / "routing.md").read_text()
    assert "60 prompts" in page
    assert "| always gemini-2.5-flash | 0.9000 (0.0000) | 0.3333 (0.0000) |" in page


def test_a_finished_run_is_not_played_again(tmp_path: Path) -> None:
    played = re.search(r"(\d+) runs played, 0 reused", run(COMMANDS["groups"], tmp_path))
    assert played
    assert f"0 runs played, {played[1]} reused" in run(COMMANDS["groups"], tmp_path)


def test_missing_data_and_unknown_streams_are_named(tmp_path: Path) -> None:
    assert "skipped covertype" in run(["run", "covertype"], tmp_path)
    for command in ("contest", "drift", "defaults"):
        assert "skipped pendigits" in run([command, "--streams", "pendigits"], tmp_path, code=1)
        assert "nosuch" in run([command, "--streams", "synnonsep, nosuch"], tmp_path, code=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "of_groups", "of_classes"),
    [("groups", 1 / 3, 1 / 3), ("groups-doubled", 1 / 12, 1 / 12), ("groups-joint", 1 / 12, 1 / 4)],
)
def test_points_of_groups_keep_the_margin(name: str, of_groups: float, of_classes: float) -> None:
    """⟨u_g - u_h, x⟩ ≥ γ and |⟨u'_g, x⟩ - b| ≥ γ for vectors whose squared norms sum to at most 1; some x are close."""
    chunk, angles, gamma = open_stream(name, None).chunk(0, 0, 20_000), 2 * np.pi * np.arange(3) / 3, 0.005
    x, group, rows = chunk.contexts.values.reshape(-1, 2), chunk.labels // 3, np.arange(20_000)
    along = x @ np.stack([np.cos(angles), np.sin(angles)]) * np.sqrt(of_groups)
    across = (x @ np.stack([-np.sin(angles), np.cos(angles)]))[rows, group]
    leads = along[rows, group][:, None] - along
    leads[rows, group] = np.inf
    cuts = np.abs(across[:, None] - [-0.2, 0.2]) * np.sqrt(of_classes)
    assert gamma <= leads.min() < 1.05 * gamma
    assert gamma <= cuts.min() < 1.05 * gamma
    np.testing.assert_array_equal(chunk.labels % 3, np.searchsorted([-0.2, 0.2], across))


@pytest.mark.parametrize("name", [*BATTERY, *TRAFFIC, "synsep", "synnonsep", "groups", "groups-joint"])
def test_a_stream_depends_on_its_seed_alone(name: str) -> None:
    """The rounds of a seed do not depend on their number, fit the problem, and differ from those of other seeds."""
    stream = open_stream(name, None)
    few, many, other = (next(stream.chunks(n, seed)) for n, seed in ((50, 1), (200, 1), (50, 2)))
    K = stream.problem.n_labels
    np.testing.assert_array_equal(few.labels, many.labels[:50])
    np.testing.assert_array_equal(few.losses(K), many.losses(K)[:50])
    np.testing.assert_array_equal(few.contexts.values, many.contexts.values[: len(few.contexts.values)])
    assert np.isfinite(many.contexts.values).all()
    assert many.contexts.indices.max(initial=0) < stream.problem.n_features
    assert 0 <= many.labels.min() <= many.labels.max() < K
    one, two = ((each.contexts.values.tobytes(), each.labels.tobytes(), str(each.right)) for each in (few, other))
    assert one != two


def test_results_md_links_every_page_and_figure() -> None:

    def links(file: Path) -> set[Path]:
        return {(file.parent / link).resolve() for link in re.findall(r"\]\(([^)#:]+)\)", file.read_text())}

    linked, pages = links(ROOT / "RESULTS.md"), set(RESULTS.resolve().glob("*.md"))
    assert pages <= linked
    assert {path for page in [ROOT / "RESULTS.md", *pages] for path in links(page) if not path.exists()} == set()
    others = [*(f"defaults-{stream}" for stream in cli.STREAMS), *list(COMMANDS)[2:], "routing"]
    assert {path.stem for path in pages} == {*EXPERIMENTS, *others}
