"""`wager compare` reads files, plays what the service would see, and gives the body of the model to create."""

import csv
import gzip
import io
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner, Result

from learners.estimators.setup import Choice, set_up
from learners.registry import LEARNERS
from service.__main__ import app
from service.contexts.dense import DenseKind
from service.contexts.named import NamedFeatures, NamedKind
from service.models.defaults import with_defaults
from service.models.learner_choice import build_learner
from service.schemas.models import ModelDefinition
from toolkit.compare.examples import Data, Wish, read_data

ROWS = [
    (0.5 * i, "FR" if i % 3 else "DE", "" if i % 7 == 0 else str(i % 2), "yes" if i % 3 else "no") for i in range(60)
]
HEADER = ("age", "country", "premium", "answer")


def as_csv(rows: Any = ROWS, header: Any = HEADER) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return text.getvalue().encode()


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def compare(path: Path, *options: str, jobs: int = 1) -> Result:
    arguments = ["--learners", "fastcb,uniform", "--seeds", "2", "--jobs", str(jobs), *options]
    return CliRunner().invoke(app, ["compare", str(path), *arguments])


def test_a_model_is_advised(tmp_path: Path) -> None:
    path = write(tmp_path / "my site.csv", as_csv())
    result = compare(path, "--label", "answer")
    assert result.exit_code == 0, result.output
    assert "Use fastcb." in result.stdout
    body = json.loads(result.stdout.splitlines()[-1])
    assert body["name"] == "my-site"
    assert body["labels"] == ["no", "yes"]
    assert body["features"] == {"kind": "named"}
    assert build_learner(ModelDefinition.model_validate(body)).algorithm == "fastcb"


def test_rows_in_order_differ_only_in_draws(tmp_path: Path) -> None:
    """A learner with true labels draws nothing, so all seeds have the same error."""
    options = ("--label", "answer", "--learners", "perceptron", "--json", "--in-order")
    result = CliRunner().invoke(app, ["compare", str(write(tmp_path / "a.csv", as_csv())), *options, "--jobs", "1"])
    (learner,) = json.loads(result.stdout)["learners"]
    assert learner["error"]["low"] == learner["error"]["high"] == learner["error"]["mean"] > 0.0


MIXED = [(1000.0 * (i % 7), 0.01 * (i * i % 11), i % 2, "ab"[i % 7 > 3]) for i in range(80)]


def test_units_do_not_decide(tmp_path: Path) -> None:
    """Columns of very different scales are standardised, whatever their units; indicators have none."""
    header = ("income", "rate", "member", "answer")
    names = {"income": 1e-5, "rate": 1e4}
    rows = [(income * names["income"], rate * names["rate"], *rest) for income, rate, *rest in MIXED]
    one, other = [data_of(write(tmp_path / "a.csv", as_csv(each, header))) for each in (MIXED, rows)]
    assert one.ratio > 1000
    assert other.ratio > 10
    np.testing.assert_allclose(one.examples.contexts.values, other.examples.contexts.values, atol=1e-9)
    columns = one.examples.contexts.values.reshape(-1, 3)
    np.testing.assert_allclose([columns.mean(0)[:2], columns.std(0)[:2]], [[0, 0], [1, 1]], atol=1e-9)
    assert columns[:, 2].tolist() == [row[2] for row in MIXED]
    assert set(one.scales) == {"income", "rate"}
    raw = data_of(write(tmp_path / "a.csv", as_csv(MIXED, header)), standardise=False)
    assert (raw.scales, raw.examples.contexts.values[:3].tolist()) == ({}, list(MIXED[0][:3]))
    alike = write(
        tmp_path / "b.csv", as_csv([(i % 5, 3 * (i % 3), "ab"[i % 2]) for i in range(30)], ("x", "y", "answer"))
    )
    assert [set(data_of(alike, standardise=each).scales) for each in (None, True)] == [set(), {"x", "y"}]


@pytest.mark.parametrize(
    "values", [(5e-324, 0.0, 0.0), (7.0, 7.0, 7.0), (1e308, -1e308, 0.5), (2.5, 2.5, 3.5)], ids=str
)
def test_columns_of_extreme_numbers_are_standardised(tmp_path: Path, values: tuple[float, ...]) -> None:
    rows = [(values[i % 3], "ab"[i % 2]) for i in range(30)]
    data = data_of(write(tmp_path / "a.csv", as_csv(rows, ("x", "answer"))), standardise=True)
    assert np.abs(data.examples.contexts.values).max() < 10.0


def test_standardised_columns_are_named_and_raw_ones_warned_of(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", as_csv(MIXED, ("income", "rate", "member", "answer")))
    said = compare(path, "--label", "answer").stdout
    assert "Columns of numbers are standardised: the largest scale is" in said
    assert '{"income": [' in said
    found = json.loads(compare(path, "--label", "answer", "--json").stdout)
    assert found["standardised"]["income"]["mean"] == pytest.approx(np.mean([row[0] for row in MIXED]))
    said = compare(path, "--label", "answer", "--no-standardise").stdout
    assert "Warning: columns are compared as they are" in said
    assert "Send (value - mean)" not in said


def test_progress_is_written_where_no_terminal_is(tmp_path: Path) -> None:
    lines = compare(write(tmp_path / "a.csv", as_csv()), "--label", "answer").stderr.splitlines()
    assert [line.partition(",")[0] for line in lines] == [f"playing: {n} of 4 runs" for n in range(5)]


def test_json_has_everything_and_a_second_run_resumes(tmp_path: Path) -> None:
    path, kept = write(tmp_path / "a.csv", as_csv()), tmp_path / "runs.jsonl"
    options = ("--label", "answer", "--json", "--resume", str(kept), "--plot", str(tmp_path / "a.png"))
    found = json.loads(compare(path, *options).stdout)
    assert {"learners", "recommended", "why", "model", "references", "rounds", "seeds"} <= set(found)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    lines = kept.read_text().splitlines()
    assert len(lines) == 5
    kept.write_text("\n".join([*lines[:3], lines[3][:20]]))
    again = json.loads(compare(path, *options).stdout)
    errors = [[(row["name"], row["error"]) for row in one["learners"]] for one in (found, again)]
    assert errors[0] == errors[1]
    assert kept.read_text().splitlines()[:3] == lines[:3]
    assert json.loads(compare(path, *options).stdout) == again


def data_of(path: Path, **wish: Any) -> Data:
    return read_data(path, Wish(**{"label": "answer"} | wish))


def test_contexts_are_those_of_the_service(tmp_path: Path) -> None:
    examples = data_of(write(tmp_path / "a.csv", as_csv()), standardise=False).examples
    kind = NamedKind(NamedFeatures(kind="named"))
    sent = [
        {"age": age, "country": country} | ({"premium": float(premium)} if premium else {})
        for age, country, premium, _ in ROWS
    ]
    expected = kind.to_batch([kind.check(context) for context in sent])
    assert all(np.array_equal(*pair) for pair in zip(examples.contexts[:3], expected[:3], strict=True))
    assert [examples.classes[k] for k in examples.labels] == [row[3] for row in ROWS]


@pytest.mark.parametrize("algorithm", sorted(LEARNERS))
def test_preparation_is_that_of_a_new_model(algorithm: str) -> None:
    kind = with_defaults(DenseKind.features.model_validate({"kind": "dense", "size": 3}), LEARNERS[algorithm])
    preparation = set_up(Choice(algorithm), 3, 3).preparation
    assert (preparation.policy, preparation.intercept, preparation.bound) == (
        kind.norm,
        kind.intercept,
        kind.norm_bound,
    )


def test_every_format_has_the_same_examples(tmp_path: Path) -> None:
    expected = data_of(write(tmp_path / "a.csv", as_csv())).digest
    text = as_csv()
    columns: dict[str, list[Any]] = {name: [row[i] for row in ROWS] for i, name in enumerate(HEADER)}
    columns["premium"] = [float(value) if value else None for value in columns["premium"]]
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    paths = [
        write(tmp_path / "b.csv.gz", gzip.compress(text, mtime=0)),
        write(tmp_path / "b.csv.xz", lzma.compress(text)),
        write(tmp_path / "b.tsv", text.replace(b",", b"\t")),
        tmp_path / "a.parquet",
    ]
    assert {data_of(path).digest for path in paths} == {expected}


def test_numbers_are_dense_and_svmlight_is_sparse(tmp_path: Path) -> None:
    path = write(tmp_path / "n.csv", as_csv([(i, i % 5, "ab"[i % 2]) for i in range(20)], ("x", "code", "answer")))
    assert data_of(path).features == {"kind": "dense", "size": 2}
    assert data_of(path, drop=["code"]).features == {"kind": "dense", "size": 1}
    assert data_of(path, categorical=["code"], size=64).features == {"kind": "named", "size": 64}
    assert data_of(path, kind="named").features == {"kind": "named"}
    bare = write(tmp_path / "bare.csv", b"\n".join(as_csv([(1, "a"), (2, "b")]).splitlines()[1:]))
    assert data_of(bare, label="2", has_header=False).features == {"kind": "dense", "size": 1}
    sparse = data_of(write(tmp_path / "s.svm.xz", lzma.compress(b"a 1:0.5 7:2 # note\nb 3:1\n\na\n")))
    assert sparse.features == {"kind": "sparse", "size": 8}
    assert sparse.examples.contexts.indices.tolist() == [1, 7, 3]
    assert sparse.examples.classes == ("a", "b")


BAD_FILES: list[tuple[str, bytes, tuple[str, ...], str]] = [
    ("a.csv", as_csv(), (), "--label is missing; its columns are age, country"),
    ("a.csv", as_csv(), ("--label", "anser"), "has no column 'anser'; its columns are age"),
    ("a.csv", as_csv(), ("--label", "age"), "must be one of a few classes"),
    ("a.csv", as_csv(), ("--label", "premium"), "a.csv: line 2: premium: got ''"),
    ("a.csv", as_csv(), ("--label", "answer", "--features", "dense"), "a.csv: line 2: country: got 'DE'"),
    ("a.csv", as_csv(), ("--label", "answer", "--drop", "x"),
        "has no column 'x'; its columns are age, country, premium, answer (--drop)"),
    ("a.csv", as_csv(), ("--label", "answer", "--learners", "fastbc"), "did you mean 'fastcb'"),
    ("a.csv", as_csv(), ("--label", "answer", "--learners", "{"), "--learners: not JSON"),
    ("a.csv", as_csv(), ("--label", "answer", "--features", "x"), "--features: got 'x'"),
    ("a.csv", as_csv(), ("--label", "answer", "--plot", "x.exe"), "--plot: got 'x.exe'"),
    ("a.csv", as_csv([*ROWS, (1, 2)]), ("--label", "answer"), "a.csv: line 62: has 2 values; the first row has 4"),
    ("a.csv", as_csv(header=("x", "x", "y", "answer")), ("--label", "answer"), "the column 'x' occurs twice"),
    ("a.csv", b"", ("--label", "answer"), "a.csv: is empty"),
    ("a.csv", b"age,answer\n", ("--label", "answer"), "a.csv: has no rows"),
    ("a.csv", b"answer\nyes\nno\n", ("--label", "answer"), "no column is left for features"),
    ("a.csv", b"age,answer\n1,yes\n2,yes\n", ("--label", "answer"), "all rows have the label 'yes'"),
    ("a.csv", b'age,answer\n"1,yes\n', ("--label", "answer"), "line 2: is not CSV"),
    ("a.csv", b"\xff\xfe\x00\x01", ("--label", "answer"), "line 1: is not UTF-8"),
    ("a.csv.gz", gzip.compress(as_csv(), mtime=0)[:-20], ("--label", "answer"), "damaged or cut short"),
    ("a.csv.xz", lzma.compress(as_csv())[:-20], ("--label", "answer"), "damaged or cut short"),
    ("a.parquet", as_csv(), ("--label", "answer"), "is not Parquet, or damaged"),
    ("a.svm", b"1 1:0.5\n2 x:1\n", (), "a.svm: line 2: got 'x:1'; must be index:value"),
    ("a.svm", b"1 1:0.5\n2 1:nan\n", (), "a.svm: line 2: got '1:nan'"),
    ("a.svm", b"1 1:0.5 1:2\n", (), "a.svm: line 1: an index occurs twice"),
    ("a.svm", b"1,2 1:0.5\n", (), "a.svm: line 1: must begin with a single label"),
    ("a.svm", b"# nothing\n", (), "has no rows with features"),
    ("a.svm", b"1 1:0.5\n2 1:1\n", ("--standardise",), "a.svm: has no columns, as it is svmlight"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "options", "message"), BAD_FILES, ids=lambda value: str(value)[:30])
def test_bad_files_end_with_one_line(
    tmp_path: Path, name: str, data: bytes, options: tuple[str, ...], message: str
) -> None:
    result = compare(write(tmp_path / name, data), *options)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_other_faults_end_with_one_line(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in compare(tmp_path / "none.csv", "--label", "answer").stderr
    path = write(tmp_path / "a.csv", as_csv())
    foreign = write(tmp_path / "other.jsonl", b'{"version": 1, "examples": "x"}\n')
    result = compare(path, "--label", "answer", "--resume", str(foreign))
    assert (result.exit_code, "holds runs of other data" in result.stderr) == (1, True)
    assert foreign.read_bytes().count(b"\n") == 1


@pytest.mark.slow
def test_several_processes_give_the_same_result(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", as_csv())
    found = [json.loads(compare(path, "--label", "answer", "--json", jobs=jobs).stdout) for jobs in (1, 2)]
    errors = [[(row["name"], row["error"], row["above_best"]) for row in one["learners"]] for one in found]
    assert errors[0] == errors[1]
