"""The laws of readers of files: what they yield, and clear errors for damaged files."""

import copy
import gzip
import json
import lzma
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from toolkit.evaluation.parquet import ParquetPart
from toolkit.files.columns import Chosen
from toolkit.files.exported import Export, Hole, Lines
from toolkit.files.lines import FileError
from toolkit.files.readers import open_reader, survey
from toolkit.files.rows import Shape
from toolkit.files.tables import read_table

DENSE = Shape("dense", 2, {"a": 0, "b": 1}, False)
ACTIONS = Shape("named", 0, {}, True)
DSJSON = {
    "_label_cost": -1.0, "_label_probability": 0.5, "_label_Action": 2, "_labelIndex": 1, "EventId": "e",
    "Timestamp": "2026-01-02T03:04:05.1234567Z", "a": [2, 1], "p": [0.5, 0.5],
    "c": {
        "user": {"age": 3}, "n": [0.5, 2], "_multi": [{"_tag": "x", "i": {"t": "p"}}, {"_tag": "y", "i": [{"t": "q"}]}],
    },
}  # fmt: skip
CSV = "f,g,label,propensity,reward\n1,2,a,0.5,1\n3,4,b,0.25,0.5\n"


def rounds(path: Path, shape: Shape | None, **options: Any) -> list[dict[str, Any]]:
    """Return all rounds of a file."""
    return [row.round for row in open_reader(path, None, Chosen(), **options).rows(shape)]


def written(folder: Path, content: bytes | str, name: str = "file") -> Path:
    """Write a file; return its path."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_dsjson_is_read(tmp_path: Path) -> None:
    """A line becomes the chosen action, its probability, and the negative cost as reward."""
    lines = json.dumps(DSJSON) + "\n" + json.dumps({"EventId": "e", "c": {}}) + "\n"
    path = written(tmp_path, lines)
    reader = open_reader(path, None, Chosen())
    (row,) = reader.rows(ACTIONS)
    assert reader.skipped == 1
    assert row.round == {
        "propensity": 0.5, "correct": True, "at": "2026-01-02T03:04:05.123456Z", "label": "y",
        "context": {"user": {"age": 3}, "n": {"0": 0.5, "1": 2}},
        "actions": [{"id": "x", "features": {"i": {"t": "p"}}}, {"id": "y", "features": {"i": {"t": "q"}}}],
    }  # fmt: skip
    (fixed,) = rounds(path, Shape("named", 0, {"no": 0, "yes": 1}, False))
    assert fixed["label"] == "yes"
    named = DSJSON | {"c": {"_multi": [{"i": {"t": "p"}}, {"i": {"t": "q"}}]}}
    (own,) = rounds(written(tmp_path, json.dumps(named)), ACTIONS, action_id="i.t")
    assert own["label"] == "q"
    (complement,) = rounds(written(tmp_path, json.dumps(DSJSON | {"_label_cost": 0.25})), ACTIONS, costs="complement")
    assert complement["reward"] == 0.75


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gzip", "xz"])
def test_tables_are_read(tmp_path: Path, pack: Any) -> None:
    """CSV with propensities is logged, and without is labelled; compressed files are read as they are."""
    logged = rounds(written(tmp_path, pack(CSV.encode())), DENSE)
    assert logged == [
        {"context": [1.0, 2.0], "label": "a", "propensity": 0.5, "correct": True},
        {"context": [3.0, 4.0], "label": "b", "propensity": 0.25, "reward": 0.5},
    ]
    labelled = written(tmp_path, pack(b"f,g,label\n1,x,a\n,y,b\n"))
    assert rounds(labelled, Shape("named", 0, DENSE.labels, False)) == [
        {"context": {"f": 1.0, "g": "x"}, "true_label": "a"},
        {"context": {"g": "y"}, "true_label": "b"},
    ]
    assert survey(labelled, open_reader(labelled, None, Chosen())) == {
        "labels": ["a", "b"],
        "features": {"kind": "named"},
    }


LINE = json.dumps(DSJSON)
TIMED = (
    CSV.replace("reward", "reward,predicted_at").replace("1\n", "1,2026-01-02T03:04:05Z\n").replace("0.5\n", "0.5,\n")
)
ELIGIBLE = 'f,g,label,propensity,reward,eligible\n1,2,b,0.5,1,"[""b""]"\n'
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "another format": (b"hello\nworld\n", "line 1: is neither"),
    "binary": (b"\x89PNG\r\n\x1a\n\xff\xfe", "line 1: is not UTF-8"),
    "gzip cut": (gzip.compress((CSV + CSV.split("\n", 1)[1] * 500).encode())[:-20], "damaged or cut short"),
    "gzip damaged": (gzip.compress(bytes(range(256)) * 99)[:40] + b"\xff" * 200, "damaged or cut short"),
    "Parquet cut": (b"PAR1" + bytes(50), "is not Parquet, or damaged"),
    "JSON cut": (f"{LINE}\n{LINE[:-20]}".encode(), "line 2: is not JSON"),
    "a list": (b'{"EventId": "a", "c": {}}\n[1]\n', "line 2: is not dsjson"),
    "not dsjson": (b'{"a": 1}\n', "line 1: is not dsjson"),
    "propensity 0": (CSV.replace("0.25", "0").encode(), "line 3: propensity: got 0.0"),
    "propensity above 1": (CSV.replace("0.25", "1.5").encode(), "line 3: propensity: got 1.5"),
    "propensity NaN": (CSV.replace("0.25", "nan").encode(), "line 3: propensity: got nan"),
    "infinite feature": (CSV.replace("3,4", "inf,4").encode(), "line 3: f: got inf"),
    "feature text": (CSV.replace("3,4", "x,4").encode(), "line 3: f: got 'x'"),
    "reward above 1": (CSV.replace(",0.5\n", ",7\n").encode(), "line 3: reward: means a reward of 7"),
    "no reward": (CSV.replace(",0.5\n", ",\n").encode(), "line 3: has no outcome"),
    "unknown label": (CSV.replace(",b,", ",z,").encode(), "line 3: label: got 'z'"),
    "too few values": (f"{CSV}1,2\n".encode(), "line 4: has 2 values; the first row has 5"),
    "no label": (b"f,g\n1,2\n", "line 1: has no column 'label'"),
    "twice": (b"f,f,label\n1,2,a\n", "line 1: the column 'f' occurs twice"),
    "huge line": (b"label,f\n" + b"1" * (2**22 + 1), "line 2: has more than"),
    "quotes": (b'label,f,g\n"a,1,2\n', "line 2: is not CSV"),
    "null byte": (b"label,f,g\na,\0,1\n", "line 2: has a null byte"),
    "dsjson cost": (json.dumps(DSJSON | {"_label_cost": 0.5}).encode(), "use --costs complement"),
    "dsjson propensity": (json.dumps(DSJSON | {"_label_probability": 2}).encode(), "line 1: _label_probability"),
    "dsjson a without a number": (
        json.dumps(DSJSON | {"a": [2, 9]}).encode(),
        "line 1: a: got [2, 9]; must be the numbers",
    ),
    "dsjson a is empty": (json.dumps(DSJSON | {"a": []}).encode(), "line 1: a: got []"),
    "dsjson a twice": (json.dumps(DSJSON | {"a": [2, 2]}).encode(), "line 1: a: got [2, 2]"),
    "dsjson a of texts": (json.dumps(DSJSON | {"a": ["2", "1"]}).encode(), 'line 1: a: got ["2", "1"]'),
    "dsjson another action first": (
        json.dumps(DSJSON | {"a": [1, 2]}).encode(),
        "_label_Action: got 2; a begins with 1",
    ),
    "dsjson p of another": (
        json.dumps(DSJSON | {"p": [0.4999, 0.5001]}).encode(),
        "line 1: _label_probability: got 0.5; p begins with 0.4999",
    ),
    "dsjson p NaN": (json.dumps(DSJSON | {"p": [math.nan, 0.5]}).encode(), "line 1: p.0: got nan"),
    "dsjson p 7": (json.dumps(DSJSON | {"p": [0.5, 7]}).encode(), "line 1: p: got [0.5, 7]; must be 2 probabilities"),
    "dsjson p negative": (json.dumps(DSJSON | {"p": [1.5, -0.5]}).encode(), "line 1: p: got [1.5, -0.5]"),
    "dsjson p 0": (json.dumps(DSJSON | {"p": [0, 1]}).encode(), "line 1: _label_probability: got 0.5; p begins with 0"),
    "dsjson p too short": (json.dumps(DSJSON | {"p": [1.0]}).encode(), "line 1: p: got [1.0]; must be 2"),
    "dsjson p no list": (json.dumps(DSJSON | {"p": 0.5}).encode(), "line 1: p: got 0.5"),
    "dsjson time": (
        json.dumps(DSJSON | {"Timestamp": "yesterday"}).encode(),
        "line 1: Timestamp: got 'yesterday'; must",
    ),
    "dsjson time of a number": (json.dumps(DSJSON | {"Timestamp": 5}).encode(), "line 1: Timestamp: got 5; must"),
    "dsjson time before 1970": (json.dumps(DSJSON | {"Timestamp": "1969-12-31"}).encode(), "line 1: Timestamp: got"),
    "dsjson long text": (
        json.dumps(DSJSON | {"c": {"_multi": [{}, {"i": "x" * 1025}]}}).encode(),
        "c._multi.1.i: got 1,025",
    ),
    "time": (TIMED.replace("2026-01-02T03:04:05Z", "x").encode(), "line 2: predicted_at: got 'x'; must be a time"),
    "time without a zone": (
        TIMED.replace("Z", "").encode(),
        "line 2: predicted_at: got '2026-01-02T03:04:05'; must be",
    ),
    "propensity below 1e-12": (
        CSV.replace("0.25", "9e-13").encode(),
        "line 3: propensity: got 9e-13; must be in [1e-12, 1]",
    ),
    "not eligible": (ELIGIBLE.replace("b,", "a,").encode(), "line 2: label: got 'a'; the eligible labels are b"),
    "unknown eligible": (ELIGIBLE.replace('[""b""]', '[""z""]').encode(), "line 2: eligible: got 'z'"),
    "eligible twice": (ELIGIBLE.replace('[""b""]', '[""b"",""b""]').encode(), "line 2: eligible: got ['b', 'b']"),
    "eligible is empty": (ELIGIBLE.replace('[""b""]', "[]").encode(), "line 2: eligible: got []"),
    "eligible is a text": (ELIGIBLE.replace('[""b""]', '""b""').encode(), "line 2: eligible: got 'b'"),
    "dsjson action": (json.dumps(DSJSON | {"_label_Action": 3}).encode(), "line 1: _label_Action: got 3"),
    "log of sets": (b'{"context": [], "labels": ["a"], "rounds_seen": 1}', "line 1: is a round with several labels"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, what: str) -> None:
    """The error names the file, the line and the reason."""
    content, reason = BAD[what]
    shape = ACTIONS if content.startswith(b"{") else DENSE
    with pytest.raises(FileError) as refused:
        rounds(written(tmp_path, content), shape)
    assert str(refused.value).startswith(f"{tmp_path}/file: ")
    assert reason in str(refused.value)


def test_what_vowpal_wabbit_writes_is_read(tmp_path: Path) -> None:
    """Its two probabilities of the chosen action differ by the rounding of single precision, or of 6 digits."""
    for logged, listed in ((0.8166667, 0.816666663), (0.05000000074505806, 0.05), (0.0166667, 0.0166666675)):
        rest = (1.0 - listed) / 2.0
        multi = {"c": {"_multi": [{"i": 1}, {"i": 2}, {"i": 3}]}}
        given = DSJSON | multi | {"a": [2, 3, 1], "p": [listed, rest, rest], "_label_probability": logged}
        (found,) = rounds(written(tmp_path, json.dumps(given)), ACTIONS)
        assert (found["label"], found["propensity"]) == ("2", logged)
    (plain,) = rounds(written(tmp_path, json.dumps({k: v for k, v in DSJSON.items() if k not in "ap"})), ACTIONS)
    assert (plain["label"], plain["propensity"]) == ("y", 0.5)


def line(number: int, **fields: Any) -> dict[str, Any]:
    """Return a line of a log."""
    moment = "2026-01-02T03:04:05.000006Z"
    return {
        "round": number, "prediction_id": f"m:{number}", "label": "b", "labels": None, "propensity": 0.25,
        "outcome": "feedback", "correct": None, "reward": 0.5, "true_label": None, "context": [1.0, 2.0],
        "actions": None, "action_count": None, "eligible": None, "holdout": False, "rounds_seen": 0,
        "predicted_at": moment, "feedback_at": moment, **fields,
    }  # fmt: skip


MODEL = {"name": "m", "created_at": "2026-01-01T00:00:00Z", "labels": ["a", "b"], "actions": None}


@pytest.mark.parametrize("format_", ["parquet", "ndjson"])
def test_an_export_is_read_back(tmp_path: Path, format_: str) -> None:
    """What is written is read as the same rounds, the last round is known, and another model is refused."""
    export = Export(tmp_path / "out", format_, MODEL)
    assert export.begin() == [Hole(0, None)]
    given = [
        line(1),
        line(2, reward=1.0, correct=True, true_label="b", eligible=["b", "a"], holdout=True, action_count=7),
    ]
    assert export.write(Lines(given, [[0.75, 0.25], None])).name == f"part-000000000001.{format_}"
    assert export.begin() == [Hole(2, None)]
    path = tmp_path / "out" if format_ == "parquet" else tmp_path / "out" / f"part-000000000001.{format_}"
    first, second = rounds(path, DENSE)
    moment = {"at": "2026-01-02T03:04:05.000006Z"}
    assert first == {"context": [1.0, 2.0], "label": "b", "propensity": 0.25, "reward": 0.5, **moment}
    assert second == {
        "context": [1.0, 2.0], "label": "b", "propensity": 0.25, "true_label": "b", "eligible": ["b", "a"],
        "holdout": True, **moment,
    }  # fmt: skip
    if format_ == "parquet":
        assert read_table(tmp_path / "out" / "part-000000000001.parquet").column("action_count") == [None, 7]
    with pytest.raises(FileError, match="parts of another model"):
        Export(tmp_path / "out", format_, MODEL | {"created_at": "2026-01-03T00:00:00Z"}).begin()


def test_parquet_of_older_exports_is_read(tmp_path: Path) -> None:
    """Files without the columns of changes are read as files with them, also by `wager evaluate`."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = Export(tmp_path / "out.parquet", "parquet", MODEL).write(Lines([line(1), line(2)], [[0.75, 0.25], None]))
    before = rounds(path, DENSE)
    parquet.write_table(parquet.read_table(path).drop_columns(["changes", "changes_seen", "label_count"]), path)
    assert rounds(path, DENSE) == before
    (columns,) = ParquetPart(str(path)).batches(10)
    assert columns.counts == [2, None]
    path = Export(path, "parquet", MODEL).write(Lines([line(1), line(2)], [[0.75, 0.25], None], [2, 3]))
    (columns,) = ParquetPart(str(path)).batches(10)
    assert columns.counts == [2, 3]


def test_dsjson_names_the_labels_that_a_prediction_had(tmp_path: Path) -> None:
    """A line has the labels of its prediction as actions, not those that were added later."""
    model = MODEL | {"labels": ["a", "b", "c"]}
    path = Export(tmp_path / "out.dsjson", "dsjson", model).write(
        Lines([line(1), line(2)], [[0.75, 0.25], None], [2, 3])
    )
    first, second = [json.loads(text) for text in path.read_text().splitlines()]
    assert ([each["_tag"] for each in first["c"]["_multi"]], first["p"]) == (["a", "b"], [0.25, 0.75])
    assert ([each["_tag"] for each in second["c"]["_multi"]], len(second["p"])) == (["a", "b", "c"], 3)


def test_parquet_needs_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow, reading and writing Parquet end with an error that names the extra; CSV is read."""
    export = Export(tmp_path / "out", "parquet", MODEL)
    export.begin()
    part = export.write(Lines([line(1)], [None]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for refused in (lambda: rounds(part, DENSE), lambda: read_table(part), export.begin):
        with pytest.raises(FileError, match=r"Parquet needs pyarrow.*wager\[tools\]"):
            refused()
    assert len(rounds(written(tmp_path, CSV), DENSE)) == 2


def test_rows_may_have_line_breaks_and_tabs(tmp_path: Path) -> None:
    """A quoted value with line breaks is one value, and the next row has its number; `.tsv` has tabs."""
    table = read_table(written(tmp_path, 'f,label\n"a\n\nb",x\n\nc,y\n'))
    assert (table.column("f"), list(table.places)) == (["a\n\nb", "c"], ["line 2", "line 6"])
    tabs = written(tmp_path, gzip.compress(b"f\tlabel\na,b\tx\n"), "file.tsv.gz")
    assert read_table(tabs).values == [["a,b"], ["x"]]
    assert rounds(tabs, Shape("named", 0, {"x": 0, "y": 1}, False)) == [{"context": {"f": "a,b"}, "true_label": "x"}]
    with pytest.raises(FileError, match="line 3: has 1 values"):
        read_table(written(tmp_path, '"f","label"\na,x\nc\n'))


def test_errors_pass_between_processes(tmp_path: Path) -> None:
    """A copy of an error says the same: joblib and Dask pass it to the command."""
    error = copy.copy(FileError(tmp_path, "line 3", "is wrong"))
    assert (str(error), error.place) == (f"{tmp_path}: line 3: is wrong", "line 3")


HALF = {
    "dsjson": json.dumps(DSJSON | {"c": {"a": "b", "_multi": [{"i": "\ud800"}, {"i": "x"}]}}),
    "ndjson": '{"label": "a", "propensity": 0.5, "correct": true, "context": {"a\\udc00": 1}, "rounds_seen": 0}',
    "csv": 'context,label\n"{""a"": ""\\ud800""}",a',
}


@pytest.mark.parametrize("kind", HALF)
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, kind: str) -> None:
    """The error names the line; the service would refuse the whole part with it."""
    path = written(tmp_path, HALF[kind] + "\n")
    with pytest.raises(FileError, match=r"(line|row) [12].*half of a surrogate pair at character"):
        list(open_reader(path, kind, Chosen()).rows(None))
