"""Small versions of the papers' experiments: tables and figures, no run played twice, reproducible mistakes."""

import csv
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.papers import versions
from benchmarks.papers.data.chunks import CHUNK
from benchmarks.papers.data.streams import find_file, open_stream
from benchmarks.papers.data.synthetic import documents, keywords
from benchmarks.papers.lineup import EXPERIMENTS
from benchmarks.papers.runs import Outcome, Run, checkpoints, play, three_quarters
from benchmarks.papers.store import path_of
from benchmarks.papers.tuning import PEER, PEERS, TABLE
from benchmarks.papers.versions import version_of
from learners.base import Contexts, Problem
from learners.registry import LEARNERS

for _package in ("joblib", "matplotlib", "vowpalwabbit"):
    pytest.importorskip(_package, reason="needs the dependency group `bench`")

cli = importlib.import_module("benchmarks.papers.cli")
figures = importlib.import_module("benchmarks.papers.figures")
jobs = importlib.import_module("benchmarks.papers.jobs")

_SHORT = ["--rounds", "400", "--seeds", "2", "--backend", "sequential"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with synthetic files in the data sets' formats."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    rows = [[*rng.integers(0, 3000, 10), rng.integers(0, 4), rng.integers(0, 40), 1 + i % 7] for i in range(300)]
    header = ",".join(f"column{i}" for i in range(13))
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (folder / "covertype.csv").write_text("\n".join(lines))
    (folder / "pendigits.tra").write_text(
        "".join(f"{','.join(map(str, rng.integers(0, 101, 16)))}, {i % 10}\n" for i in range(100))
    )
    (folder / "reuters4.svm").write_text("# words\n" + "".join(f"{1 + i % 4} {1 + i % 9}:2 12:1\n" for i in range(150)))
    return folder


def run(*arguments: str, code: int = 0) -> str:
    """Run a command, which must end with this code, and return its output."""
    result = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def rows_of(table: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file."""
    with table.open() as lines:
        return list(csv.DictReader(lines))


def play_experiment(name: str, data: Path, out: Path, *more: str) -> str:
    """Play a short trial with two rates."""
    files = {"covertype": data / "covertype.csv", "reuters4": data / "reuters4.svm"}
    where = files.get(name.removesuffix("-noisy"), data)
    learners = "banditron,pnewtron,soba-diagonal,gaptron,perceptron,bandit-perceptrons,bandit-perceptrons-features"
    learners += ",fenchel-young" if more else ",fenchel-young,soba" * (name in {"groups", "reuters4"})
    options = ["--rates", "0.03125,0.25", "--learners", learners, "--data", str(where), "--out", str(out)]
    return run("run", name, *_SHORT, *options, *more)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_ends_in_tables_and_figures(name: str, data: Path, tmp_path: Path) -> None:
    """Write a row for each learner at each rate, with errors in [0, 1], both figures, and the page with its figures."""
    play_experiment(name, data, tmp_path)
    rows = rows_of(tmp_path / name / "table.csv")
    assert {row["exploration"] for row in rows if row["learner"] == "Banditron"} == {"0.03125", "0.25"}
    cheap = {"Banditron", "PNewtron", "Gaptron, 30η", "Gaptron", "Perceptron", "bandit perceptrons"}
    assert cheap & {entrant.name for entrant in EXPERIMENTS[name].entrants} <= {row["learner"] for row in rows}
    assert all(0.0 <= float(row["error_mean"]) <= 1.0 and row["seeds"] == "2" for row in rows)
    assert all(float(row["last_quarter_error_mean"]) <= 1.0 for row in rows)
    for figure in ("rates.png", "rates.svg", "rounds.png", "rounds.svg"):
        assert (tmp_path / name / figure).stat().st_size > 1000
    page = (tmp_path / "results" / f"{name}.md").read_text()
    shown = re.findall(r"\]\((.+?\.png)\)", page)
    assert f"{name}.png" in shown
    assert all((tmp_path / "results" / figure).stat().st_size > 1000 for figure in shown)


def test_a_finished_run_is_not_played_again(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play nothing on a second call, keep the files of all runs, and write the same table; replay a deleted run."""
    first = play_experiment("synsep", data, tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/**/*.json")}
    table = (tmp_path / "synsep" / "table.csv").read_text()
    assert first.startswith(f"{len(kept)} runs played, 0 reused") or f"{len(kept)} runs played, 0 reused" in first
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "play_and_keep", None)
        assert "0 runs played" in play_experiment("synsep", data, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/**/*.json")} == kept
    assert (tmp_path / "synsep" / "table.csv").read_text() == table
    next(iter(kept)).unlink()
    assert "1 runs played" in play_experiment("synsep", data, tmp_path)


def test_a_run_is_the_same_under_every_backend(tmp_path: Path) -> None:
    """Play in sequence or four in parallel, with the same mistakes at every checkpoint."""
    outcomes = []
    for backend in ("sequential", "threading"):
        runs = [Run("groups", None, "banditron", {"exploration": rate}, 300, 1) for rate in (0.1, 0.2, 0.3)]
        jobs.complete(runs, tmp_path / backend, backend, 4)
        outcomes.append([json.loads(path_of(tmp_path / backend, one).read_text())["mistakes"] for one in runs])
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] != outcomes[0][1]


def test_equal_runs_are_played_once(tmp_path: Path) -> None:
    """Play one of two equal runs, which two rows of a table may share."""
    one = Run("groups", None, "uniform", {}, 300, 1)
    assert jobs.complete([one, one], tmp_path, "sequential", 1) == 1


def test_a_failed_run_stores_nothing(tmp_path: Path) -> None:
    """Leave no file for a run that did not end."""
    runs = [Run("groups", None, "banditron", {"exploration": 0.0}, 300, 1)]
    with pytest.raises(ValueError, match="exploration"):
        jobs.complete(runs, tmp_path, "sequential", 1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_missing_data_set_is_reported(tmp_path: Path) -> None:
    """Name each experiment that is skipped for lack of data."""
    assert "skipped covertype" in run("run", "covertype", "--out", str(tmp_path))
    streams = ["--streams", "pendigits,reuters4"]
    said = run("defaults", *streams, "--data", str(tmp_path), "--out", str(tmp_path), code=1)
    assert "skipped pendigits" in said
    assert "skipped reuters4" in said


def test_defaults(data: Path, tmp_path: Path) -> None:
    """Write a page per stream, with the default and the best setting of each learner and of the peer."""
    learners = "soba-diagonal,banditron,perceptron,uniform,newtron,vowpal-wabbit"
    options = ["--streams", "synsep,pendigits", "--learners", learners, "--data", str(data), "--out", str(tmp_path)]
    run("defaults", "--rounds", "200", "--seeds", "1", "--tuning-seeds", "1", "--backend", "sequential", *options)
    rows = rows_of(tmp_path / "defaults" / "table.csv")
    assert {row["stream"] for row in rows} == {"synsep", "pendigits"}
    assert {row["information"] for row in rows if row["algorithm"] == "perceptron"} == {"full"}
    text = (tmp_path / "results" / "defaults-synsep.md").read_text()
    assert "Left out: newtron: a run would take" in text
    for learner in ("soba-diagonal", "banditron", *(peer.name for peer in PEERS)):
        line = next(line for line in text.splitlines() if line.startswith(f"| {learner} |"))
        assert float(line.split("|")[9]) > 0.0  # default / tuned
    pendigits = (tmp_path / "results" / "defaults-pendigits.md").read_text()
    assert pendigits.startswith("# Defaults: pendigits, 200 rounds\n")


def test_noisy_data_replace_labels_only(data: Path) -> None:
    """Keep the contexts and most labels; each pass replaces others, and a shorter stream is a prefix."""
    file = str(data / "reuters4.svm")
    clean, noisy = (next(open_stream(name, file).chunks(3000, 1)) for name in ("reuters4", "reuters4-noisy"))
    assert (clean.contexts.values == noisy.contexts.values).all()
    wrong = clean.labels != noisy.labels
    assert 0.03 < wrong.mean() < 0.07
    assert set(noisy.labels) == {0, 1, 2, 3}
    assert (wrong[:150] != wrong[150:300]).any()
    assert (next(open_stream("reuters4-noisy", file).chunks(100, 1)).labels == noisy.labels[:100]).all()


def test_every_learner_has_its_settings() -> None:
    """Include every registered learner except the mixer of experts, the reduction and that of ordered labels."""
    assert {row.algorithm for row in TABLE} == set(LEARNERS) - {"adahedge", "bandit-reduction", "fenchel-young-ordinal"}
    for row in TABLE:
        learners = [LEARNERS[row.algorithm](problem=Problem(3, 4), **settings) for settings in row.settings()]
        assert all(learner.needs_true_label == row.full_information for learner in learners)
    assert PEER.settings()[0] == {}


def test_the_peer_learns() -> None:
    """Check that Vowpal Wabbit errs far less than chance, 8/9, with both cost encodings."""
    for costs in ("0/1", "-1/0"):
        hyperparameters = {"options": "--squarecb", "costs": costs}
        assert play(Run("synsep", None, PEER.algorithm, hyperparameters, 3000, 0)).late_error < 0.5


@pytest.mark.parametrize("name", ["synsep", "synnonsep", "groups"])
def test_a_shorter_stream_is_a_prefix(name: str) -> None:
    """Check that the rounds of a seed do not depend on their number, and that seeds differ."""
    stream = open_stream(name, None)
    few, many, others = (next(stream.chunks(n, seed)) for n, seed in ((50, 1), (200, 1), (50, 2)))
    assert (few.labels == many.labels[:50]).all()
    stop = few.contexts.starts[-1]
    assert (few.contexts.values == many.contexts.values[:stop]).all()
    assert (few.contexts.indices == many.contexts.indices[: len(few.contexts.indices)]).all()
    assert (few.labels != others.labels).any()


def test_documents_follow_the_paper() -> None:
    """Check for all but five class words, twenty other words, no word twice, and the right share of wrong labels."""
    contexts, labels = documents(4000, 5, 0, 0.0)
    owned = [set(own.tolist()) for own in keywords(5)]
    assert {len(own) for own in owned} <= set(range(20, 41))
    for t in range(4000):
        words = contexts.indices[contexts.starts[t] : contexts.starts[t + 1]].tolist()
        keys = {word for word in words if word < 120}
        assert len(set(words)) == len(words)
        assert keys < owned[labels[t]]
        assert (len(keys), len(words)) == (len(owned[labels[t]]) - 5, len(owned[labels[t]]) + 15)
    used = np.bincount(contexts.indices, minlength=400)
    assert (used[120:] > 200).all()  # 286 expected
    noisy = documents(4000, 5, 0, 0.05)[1]
    assert 0.035 < (noisy != labels).mean() < 0.065


def test_passes_over_a_data_set(data: Path) -> None:
    """Check that each pass has every example once, and its own order."""
    stream = open_stream("pendigits", str(data / "pendigits.tra"))
    (chunk,) = stream.chunks(200, 1)
    rows = chunk.contexts.values.reshape(200, -1)
    first, second = rows[:100], rows[100:]
    assert {row.tobytes() for row in first} == {row.tobytes() for row in second}
    assert (first != second).any()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)


def test_chunks_cover_the_rounds() -> None:
    """Split a long stream into full chunks and a shorter last one."""
    sizes = [chunk.contexts.n for chunk in open_stream("groups", None).chunks(2 * CHUNK + 7, 0)]
    assert sizes == [CHUNK, CHUNK, 7]


def test_checkpoints_and_errors() -> None:
    """Compute the error of the last quarter, and end the checkpoints with T."""
    points = checkpoints(1_000_000)
    assert points[0] == 1
    assert points[-1] == 1_000_000
    assert 150 <= len(points) <= 202
    assert three_quarters(1000) in checkpoints(1000)
    outcome = Outcome([1, 6, 8], [1, 3, 4], 1.0)
    assert outcome.error == 0.5
    assert outcome.late_error == 0.5


def test_versions_follow_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive a learner's version from its own file and the common files, and from no other learner."""

    def changed(module: str) -> Iterator[str]:
        real = versions._code
        with monkeypatch.context() as patched:
            patched.setattr(versions, "_code", lambda name: real(name) + "#" * (name == module))
            version_of.cache_clear()
            yield from (name for name in before if version_of(name, None) != before[name])
        version_of.cache_clear()

    before = {name: version_of(name, None) for name in ("soba", "soba-diagonal", "banditron", PEER.algorithm)}
    assert set(changed("learners.algorithms.first_order.banditron")) == {"banditron"}
    assert set(changed("learners.algorithms.second_order.soba")) == {"soba", "soba-diagonal"}
    assert set(changed("benchmarks.papers.vowpal_wabbit")) == {PEER.algorithm}
    assert set(changed("benchmarks.papers.data.synthetic")) == set(before)


def test_names_do_not_overlap() -> None:
    """Spread the names of curves that end at the same place, within the figure."""
    places: Any = figures.spread(np.array([50.0, 50.0, 50.0]), 10.0, 0.0, 100.0)
    np.testing.assert_allclose(places, [40, 50, 60])
    np.testing.assert_allclose(figures.spread(np.array([0.0, 1.0, 99.0]), 10.0, 0.0, 100.0), [0, 10, 99])


def test_a_file_is_found_by_its_folder(data: Path) -> None:
    """Accept the file or its folder as `--data`."""
    assert find_file("pendigits", str(data)) == data / "pendigits.tra"
    assert find_file("pendigits", str(data / "pendigits.tra")) == data / "pendigits.tra"
    assert find_file("reuters4", str(data)) is None
    assert find_file("reuters4-noisy", str(data / "reuters4.svm")) == data / "reuters4.svm"
    assert find_file("reuters4", None) is None
    assert isinstance(open_stream("reuters4", str(data / "reuters4.svm")).chunk(0, 0, 5).contexts, Contexts)


@pytest.mark.parametrize("command", ["boosting", "reduction", "drift", "contest"])
def test_a_command_without_its_data_writes_no_page(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The committed pages stay as they are; so they do if only some streams have data."""
    monkeypatch.setattr(cli, "RESULTS", tmp_path / "committed")
    streams = ["--streams", "pendigits"] if command in {"drift", "contest"} else []
    assert "skipped pendigits" in run(command, *streams, "--out", str(tmp_path / "out"), code=1)
    assert list(tmp_path.iterdir()) == []
    assert cli._found("synnonsep,pendigits", ["synnonsep", "pendigits"], None) == ({"synnonsep": None}, True)


@pytest.mark.parametrize("command", ["contest", "drift", "defaults"])
def test_an_unknown_stream_is_refused(command: str) -> None:
    """The error names it."""
    assert "nosuch" in run(command, "--streams", "synnonsep, nosuch", code=2)
