"""The laws of features in files: what the service would refuse is refused by every command, before anything is made."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from tests.service.analytics.exports import log_columns, write_part
from tests.toolkit.files.test_readers import DENSE, line, rounds, written
from toolkit.files.columns import Chosen
from toolkit.files.lines import FileError
from toolkit.files.readers import open_reader, survey
from toolkit.files.rows import Shape

NAMED = Shape("named", 0, DENSE.labels, False)
FEATURES: dict[str, tuple[Any, str]] = {
    "a number": (5, "context: got 5; must be an object, or a list of numbers"),
    "null": (None, "context: got null; must be an object, or a list of numbers"),
    "a text": ("5", 'context: got "5"; must be an object'),
    "a list of numbers": (
        {"f": [1, 2]},
        "context.f: got 1 in a list; features are numbers, booleans, strings and lists",
    ),
    "a list with null": ({"f": {"g": ["a", None]}}, "context.f.g: got None in a list; features are"),
    "a long text": ({"f": "x" * 1025}, "context.f: got 1,025 characters; must have at most 1,024"),
    "a long text in a list": ({"f": ["x" * 1025]}, "context.f: got 1,025 characters"),
    "a long name": ({"f": {"x" * 255: 1}}, "context: has a name of 257 characters; must have at most 256"),
    "not a number": ({"f": math.nan}, "context.f: got nan; must be finite"),
    "a huge integer": ({"f": 10**400}, "context.f: got 1000"),
    "deep objects": (json.loads('{"f":' * 9 + "1" + "}" * 9), "context: has objects in more than 8 levels"),
}


@pytest.mark.parametrize("what", FEATURES)
@pytest.mark.parametrize("format_", ["csv", "ndjson"])
def test_features_are_checked_in_the_file(tmp_path: Path, what: str, format_: str) -> None:
    """A value that the service would refuse is named by its line and its path, in the survey and for a model."""
    value, reason = FEATURES[what]
    text = json.dumps(value).replace('"', '""')
    path = written(tmp_path, f'label,context\na,"{text}"\n')
    if format_ == "ndjson":
        value = json.dumps(value) if isinstance(value, str) else value  # a log in NDJSON may hold JSON as text
        fields = {"correct": True, "reward": None, "predicted_at": None, "context": value}
        path = written(tmp_path, json.dumps(line(1, **fields)))
        reason = reason.replace("context: got null; must be an object, or a list of numbers", "context: got None; the")
    with pytest.raises(FileError, match=r"line \d: ") as refused:
        rounds(path, NAMED)
    assert reason in str(refused.value)
    if not (format_ == "ndjson" and value is None):  # a log of a model without features
        with pytest.raises(FileError, match=r"line \d: ") as refused:
            survey(path, open_reader(path, None, Chosen()))
        assert reason in str(refused.value)


MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "date32[day]": (pa.date32(), date(2026, 1, 2)),
    "timestamp[us, tz=UTC]": (pa.timestamp("us", "UTC"), MOMENT),
    "timestamp[ns]": (pa.timestamp("ns"), 1_001),
    "decimal128(5, 2)": (pa.decimal128(5, 2), Decimal("1.25")),
    "binary": (pa.binary(), b"x"),
    "struct<a: int64>": (pa.struct({"a": pa.int64()}), {"a": 1}),
    "list<element: int64>": (pa.list_(pa.field("element", pa.int64())), [1]),
}


def table(path: Path, **columns: Any) -> Path:
    """Write labelled rows with these columns."""
    pq.write_table(pa.table({"label": ["a", "b"] * 2, **columns}), path)
    return path


def test_plain_columns_are_features(tmp_path: Path) -> None:
    """Numbers, booleans, strings and lists of strings of every width are read, also as dictionaries."""
    texts = pa.array(["x", "y", None, "x"])
    path = table(
        tmp_path / "log.parquet",
        i=pa.array([1, 2, None, 4], pa.uint8()),
        f=pa.array([1.5, 2.0, 3.0, 4.0], pa.float32()),
        b=[True, False, True, None],
        s=texts.cast(pa.large_string()),
        d=texts.dictionary_encode(),
        l=pa.array([["x"], [], None, ["y", "z"]]),
        n=pa.nulls(4),
    )
    first, *_ = rounds(path, NAMED)
    assert first == {"true_label": "a", "context": {"i": 1, "f": 1.5, "b": True, "s": "x", "d": "x", "l": ["x"]}}


@pytest.mark.parametrize("what", TYPES)
def test_other_columns_are_refused_by_every_command(tmp_path: Path, what: str) -> None:
    """The line names the file, the column, its type and what is allowed; for `evaluate`, the column is the context."""
    type_, value = TYPES[what]
    path = table(tmp_path / "log.parquet", f=[1, 2, 3, 4], when=pa.array([None, None, value, None], type_))
    refused = (
        f"{path}: the column 'when' has the type {what}; features are numbers, booleans, strings and lists of strings"
    )
    for reader in (lambda: rounds(path, NAMED), lambda: survey(path, open_reader(path, None, Chosen()))):
        with pytest.raises(FileError) as error:
            reader()
        assert str(error.value) == refused
    found = CliRunner().invoke(app, ["compare", str(path), "--label", "label"])
    assert (found.exit_code, found.stderr) == (1, f"wager: {refused}\n")
    columns = log_columns(4) | {"context": pa.array([value] * 4, type_)}
    found = CliRunner().invoke(app, ["evaluate", str(write_part(tmp_path / "part.parquet", columns))])
    (one,) = found.stderr.strip().splitlines()
    assert found.exit_code == 1
    assert f"{tmp_path}/part.parquet: " in one
    assert "context" in one


@pytest.mark.parametrize(
    ("context", "reason"), [("5", ": got 5"), ("null", ": got null"), ('{"f": [1]}', ".f: got 1 in")]
)
def test_contexts_of_a_log_are_checked(tmp_path: Path, context: str, reason: str) -> None:
    """`evaluate` refuses the contexts that `replay` refuses, in the same words."""
    columns = log_columns(4)
    columns["context"][2] = context
    path = write_part(tmp_path / "part.parquet", columns)
    found = CliRunner().invoke(app, ["evaluate", str(path)])
    with pytest.raises(FileError) as error:
        survey(path, open_reader(path, None, Chosen()))
    assert (found.exit_code, found.stderr.strip()) == (1, f"wager: {error.value}")
    assert f"{path}: row 3: context{reason}" in found.stderr


def test_parts_have_the_same_columns(tmp_path: Path) -> None:
    """A part that lacks a column of the first one, or has another one, is refused by name; order does not matter."""
    first = table(tmp_path / "part-1.parquet", f=[1, 2, 3, 4], g=[1, 2, 3, 4])
    second = table(tmp_path / "part-2.parquet", g=[1, 2, 3, 4], f=[1, 2, 3, 4])
    assert len(rounds(tmp_path, NAMED)) == 8
    for columns, reason in (
        ({"f": [1, 2, 3, 4]}, "has no column 'g', which part-1.parquet has"),
        ({"f": [1] * 4, "g": [1] * 4, "h": [1] * 4}, "has the column 'h', which part-1.parquet does not have"),
    ):
        table(second, **columns)
        with pytest.raises(FileError) as error:
            rounds(tmp_path, NAMED)
        assert str(error.value) == f"{second}: {reason}"
    assert first.exists()


def test_times_of_any_precision_are_read(tmp_path: Path) -> None:
    """Nanoseconds are cut to microseconds, and a time without a zone is refused by its row."""
    columns = {"propensity": [0.5] * 4, "reward": [1.0] * 4, "f": [1, 2, 3, 4]}
    moments = pa.array([1_700_000_000_000_000_001] * 4, pa.timestamp("ns", "UTC"))
    path = table(tmp_path / "log.parquet", predicted_at=moments, **columns)
    assert {each["at"] for each in rounds(path, NAMED)} == {"2023-11-14T22:13:20Z"}
    table(path, predicted_at=moments.cast(pa.timestamp("ns")), **columns)
    with pytest.raises(FileError, match="row 1: predicted_at: got 2023-11-14T22:13:20; must be a time from 1970 on"):
        rounds(path, NAMED)
