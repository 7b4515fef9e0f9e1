"""The contest of defaults: streams that depend on their seed alone, and one page of errors and ratios."""

import gzip
import importlib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.datasets import kdd
from benchmarks.papers import versions
from benchmarks.papers.contest import STREAMS, Errors, Result, geometric_mean, is_worse, plan, ratios
from benchmarks.papers.data.battery import BATTERY
from benchmarks.papers.data.chunks import CHUNK, Chunk
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.data.topics import documents_of_topics, zipf
from benchmarks.papers.runs import Run, play
from benchmarks.papers.vowpal_wabbit import ALGORITHM
from learners.base import FloatArray
from tests.learners.arrays import bits

for _package in ("joblib", "vowpalwabbit"):
    pytest.importorskip(_package, reason="needs the dependency group `bench`")

cli = importlib.import_module("benchmarks.papers.cli")


def test_versions_follow_every_generator() -> None:
    """A change to any module of streams makes stored outcomes invalid."""
    folder = Path(versions.__file__).parent / "data"
    modules = {f"benchmarks.papers.data.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    assert modules <= versions._reached([versions._ENTRY], set())


def rows_of(chunk: Chunk) -> FloatArray:
    """Return dense contexts as a matrix."""
    return chunk.contexts.values.reshape(chunk.contexts.n, -1)


@pytest.mark.parametrize("name", BATTERY)
def test_a_shorter_generated_stream_is_a_prefix(name: str) -> None:
    """The rounds of a seed do not depend on their number; contexts fit the problem; seeds and chunks differ."""
    stream = open_stream(name, None)
    few, many = stream.chunk(1, 0, 50), stream.chunk(1, 0, 200)
    stop = few.contexts.starts[-1]
    np.testing.assert_array_equal(few.labels, many.labels[:50])
    np.testing.assert_array_equal(few.contexts.values, many.contexts.values[:stop])
    np.testing.assert_array_equal(few.contexts.indices, many.contexts.indices[: len(few.contexts.indices)])
    assert many.contexts.indices.max() < stream.problem.n_features
    assert 0 <= many.labels.min() <= many.labels.max() < stream.problem.n_labels
    assert np.isfinite(many.contexts.values).all()
    if few.right is not None and many.right is not None:
        np.testing.assert_array_equal(few.right, many.right[:50])
        assert few.right.shape == (50, stream.problem.n_labels)
    assert bits((few.contexts.values, few.right)) not in [
        bits((other.contexts.values, other.right)) for other in (stream.chunk(1, 1, 50), stream.chunk(2, 0, 50))
    ]


def test_documents_have_their_topics_shares() -> None:
    """Labels follow the given shares, the share of wrong labels is the noise, and rows have norm 1."""
    shares = zipf(20)
    contexts, topics = documents_of_topics(20_000, 3, 0, shares, 0.0)
    _, noisy = documents_of_topics(20_000, 3, 0, shares, 0.2)
    np.testing.assert_allclose(np.bincount(topics, minlength=20) / 20_000, shares, atol=0.01)
    uniform_hits = float((shares / 20).sum())
    assert abs((noisy != topics).mean() - 0.2 * (1 - uniform_hits)) < 0.01
    np.testing.assert_allclose(np.add.reduceat(contexts.values**2, contexts.starts[:-1]), 1.0)


def test_several_labels_can_be_right() -> None:
    """Independent chances make several labels right, or none; in `rare`, none in most rounds."""
    several, rare = (open_stream(name, None).chunk(0, 0, 20_000).right for name in ("several", "rare"))
    assert several is not None
    assert rare is not None
    assert {0, 1, 2, 3} < set(several.sum(axis=1).tolist())
    assert 0.5 < (rare.sum(axis=1) == 0).mean() < 0.95


@pytest.mark.parametrize(("name", "chances"), [("ab", [0.1, 0.12]), ("abc", [0.1, 0.12, 0.5])])
def test_a_trial_has_fixed_chances(name: str, chances: list[float]) -> None:
    """Each label of an A/B test is right with its chance, and the context is constant."""
    chunk = open_stream(name, None).chunk(4, 0, 50_000)
    assert chunk.right is not None
    np.testing.assert_allclose(chunk.right.mean(axis=0), chances, atol=0.01)
    assert set(chunk.labels.tolist()) == {len(chances) - 1}
    assert set(chunk.contexts.values.tolist()) == {1.0}


def test_columns_have_their_scales() -> None:
    """The columns of `scales` range from 1 to 10^6, and those of `scales-unit` have rows of norm 1."""
    raw, unit = (rows_of(open_stream(name, None).chunk(0, 0, 5000)) for name in ("scales", "scales-unit"))
    np.testing.assert_allclose(raw.std(axis=0), 10.0 ** (np.arange(13) / 2), rtol=0.1)
    np.testing.assert_allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), unit)


@pytest.mark.parametrize("name", ["lognormal", "cauchy"])
def test_heavy_tails(name: str) -> None:
    """One value in 5,000 rounds exceeds the median magnitude fifty times."""
    values = np.abs(open_stream(name, None).chunk(0, 0, 5000).contexts.values)
    assert values.max() > 50 * np.median(values)


def test_a_drift_rotates_the_classes() -> None:
    """After half of the chunk, the centres of the classes have the next labels."""
    chunk = open_stream("drift", None).chunk(0, 0, CHUNK)
    rows, half = rows_of(chunk), CHUNK // 2
    before, after = (
        np.array([rows[part][chunk.labels[part] == k].mean(axis=0) for k in range(8)])
        for part in (slice(0, half), slice(half, CHUNK))
    )
    nearest = np.linalg.norm(before[:, None] - after[None], axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest, (np.arange(8) + 1) % 8)


def test_orders() -> None:
    """`by-class` has one class per 1,000 rounds; difficulty rises in `easy-first` and falls in `hard-first`."""
    assert all(
        len(set(block)) == 1 for block in open_stream("by-class", None).chunk(0, 0, 20_000).labels.reshape(20, -1)
    )
    for name, rises in (("easy-first", True), ("hard-first", False)):
        chunk = open_stream(name, None).chunk(0, 0, 25_000)
        rows, labels = rows_of(chunk), chunk.labels
        spreads = [np.mean([rows[part][labels[part] == k].std() for k in range(10)]) for part in _FIRST_AND_LAST]
        assert (spreads[1] > spreads[0]) == rises
        centres = [np.linalg.norm(rows[part][labels[part] == 0].mean(axis=0)) for part in _FIRST_AND_LAST]
        assert (centres[0] > centres[1]) == rises


_FIRST_AND_LAST = slice(0, 2000), slice(23_000, 25_000)


def kdd_file(folder: Path) -> Path:
    """Write a small file in the format of KDD Cup 1999."""
    line = "{n},{protocol},http,SF," + ",".join(["1"] * 37) + ",{label}.\n"
    labels = ["normal", "smurf", "neptune"]
    text = "".join(line.format(n=i, protocol=("tcp", "udp")[i % 2], label=labels[i % 3]) for i in range(90))
    path = folder / "kddcup.data_10_percent.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_kdd_is_read(tmp_path: Path) -> None:
    """Three classes, 38 numbers, and one column for each symbol; rows have norm 1."""
    examples = kdd(kdd_file(tmp_path))
    assert (examples.n_labels, examples.n_features, len(examples.labels)) == (3, 38 + 2 + 1 + 1, 90)
    np.testing.assert_array_equal(np.bincount(examples.labels), [30, 30, 30])
    starts = examples.contexts.starts
    np.testing.assert_allclose(np.add.reduceat(examples.contexts.values**2, starts[:-1]), 1.0)


@pytest.mark.parametrize("algorithm", ["squarecb", ALGORITHM])
def test_players_count_any_right_label(algorithm: str) -> None:
    """On `abc` the learner and the peer find the label with chance .5, although all rounds have the same context."""
    setting = {"options": "--squarecb"} if algorithm == ALGORITHM else {}
    assert 0.45 < play(Run("abc", None, algorithm, setting, 4000, 0)).late_error < 0.6


def errors(*values: float) -> Errors:
    """Return the same errors overall and late."""
    return Errors(np.array(values), np.array(values))


def test_ratios_and_exceptions() -> None:
    """A mistake is added to each error, and only a difference of over one standard error counts."""
    one = Result("ab", 100, errors(0.20, 0.22), errors(0.10, 0.12), errors(0.17, 0.23), 1.0)
    np.testing.assert_allclose(ratios([one], "old", "overall"), [(0.21 + 0.01) / (0.11 + 0.01)])
    np.testing.assert_allclose(ratios([one], "old", "late"), [(0.21 + 0.04) / (0.11 + 0.04)])
    assert is_worse(one, "old", "overall")
    assert not is_worse(one, "peer", "overall")
    alone = one._replace(peer=None)
    assert not is_worse(alone, "peer", "overall")
    assert len(ratios([alone, one], "peer", "overall")) == 1
    assert geometric_mean(np.array([1.0, 4.0])) == pytest.approx(2.0)


def test_a_bout_compares_on_the_same_seeds() -> None:
    """Each pair has one seed; the peer plays the first of them, all on the papers' streams, none with many labels."""
    bouts = [plan(stream, None, 500, 5, "squarecb", "banditron") for stream in ("synsep", "ab", "dense100")]
    for bout, peer_seeds in zip(bouts, (5, 3, 0), strict=True):
        assert [{run.seed for run in pair} for pair in bout.pairs] == [{seed} for seed in range(5)]
        assert [run.algorithm for run in bout.pairs[0]] == ["squarecb", "banditron"]
        assert [(run.algorithm, run.seed) for run in bout.peers] == [(ALGORITHM, seed) for seed in range(peer_seeds)]


def test_the_contest_writes_its_page(tmp_path: Path) -> None:
    """One line per stream, geometric means, and worst ratios that name their stream."""
    kdd_file(tmp_path)
    options = ["--rounds", "120", "--seeds", "2", "--new", "squarecb", "--old", "banditron", "--backend", "sequential"]
    folders = ["--data", str(tmp_path), "--out", str(tmp_path), "--streams", "synsep,kdd,pendigits,several"]
    ran = CliRunner().invoke(cli.app, ["contest", *options, *folders], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert "skipped pendigits" in ran.output
    page = (tmp_path / "results" / "contest.md").read_text()
    assert page.startswith("# The contest: squarecb\n")
    names = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    assert names == ["stream", "---", "synsep", "kdd", "several", "streams", "---"] + [
        group for group in ("papers'", "others", "all") for _ in range(2)
    ]
    assert page.count("over one standard error") == 4


def test_the_contest_knows_its_learners(tmp_path: Path) -> None:
    """Refuse algorithms that are not registered, before any run."""
    ran = CliRunner().invoke(cli.app, ["contest", "--new", "nonesuch", "--out", str(tmp_path)])
    assert ran.exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_every_stream_has_its_rounds() -> None:
    """The contest has at least nineteen streams of 20,000 rounds or more."""
    assert len(STREAMS) >= 19
    assert all(rounds >= 20_000 for rounds in STREAMS.values())
