"""The laws of files: what readers yield and refuse, which rounds parts lack, and clear errors for damaged files."""

import copy
import errno
import gzip
import io
import json
import lzma
import math
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from service.schemas.rounds import RoundLine
from tests.service.analytics.exports import log_columns, write_part
from toolkit.files import lines
from toolkit.files.columns import Chosen, find_columns
from toolkit.files.exported import SUFFIXES, Export, Hole, Lines
from toolkit.files.lines import FileError
from toolkit.files.parquet import exported_types
from toolkit.files.readers import open_reader, survey
from toolkit.files.rows import ALLOWED, Shape, shape_of
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
    return [row.round for row in open_reader(path, None, Chosen(), **options).rows(shape)]


def written(folder: Path, content: bytes | str, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_dsjson_is_read(tmp_path: Path) -> None:
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
    "empty": (b"", "is empty"), "another format": (b"hello\nworld\n", "line 1: is neither"),
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
    "dsjson a without a number": (json.dumps(DSJSON | {"a": [2, 9]}).encode(),
        "line 1: a: got [2, 9]; must be the numbers"),
    "dsjson a is empty": (json.dumps(DSJSON | {"a": []}).encode(), "line 1: a: got []"),
    "dsjson a twice": (json.dumps(DSJSON | {"a": [2, 2]}).encode(), "line 1: a: got [2, 2]"),
    "dsjson a of texts": (json.dumps(DSJSON | {"a": ["2", "1"]}).encode(), 'line 1: a: got ["2", "1"]'),
    "dsjson another action first": (json.dumps(DSJSON | {"a": [1, 2]}).encode(),
        "_label_Action: got 2; a begins with 1"),
    "dsjson p of another": (json.dumps(DSJSON | {"p": [0.4999, 0.5001]}).encode(),
        "line 1: _label_probability: got 0.5; p begins with 0.4999"),
    "dsjson p NaN": (json.dumps(DSJSON | {"p": [math.nan, 0.5]}).encode(), "line 1: p.0: got nan"),
    "dsjson p 7": (json.dumps(DSJSON | {"p": [0.5, 7]}).encode(), "line 1: p: got [0.5, 7]; must be 2 probabilities"),
    "dsjson p negative": (json.dumps(DSJSON | {"p": [1.5, -0.5]}).encode(), "line 1: p: got [1.5, -0.5]"),
    "dsjson p 0": (json.dumps(DSJSON | {"p": [0, 1]}).encode(),
        "line 1: _label_probability: got 0.5; p begins with 0"),
    "dsjson p too short": (json.dumps(DSJSON | {"p": [1.0]}).encode(), "line 1: p: got [1.0]; must be 2"),
    "dsjson p no list": (json.dumps(DSJSON | {"p": 0.5}).encode(), "line 1: p: got 0.5"),
    "dsjson time": (json.dumps(DSJSON | {"Timestamp": "yesterday"}).encode(),
        "line 1: Timestamp: got 'yesterday'; must"),
    "dsjson time of a number": (json.dumps(DSJSON | {"Timestamp": 5}).encode(), "line 1: Timestamp: got 5; must"),
    "dsjson time before 1970": (json.dumps(DSJSON | {"Timestamp": "1969-12-31"}).encode(), "line 1: Timestamp: got"),
    "dsjson long text": (json.dumps(DSJSON | {"c": {"_multi": [{}, {"i": "x" * 1025}]}}).encode(),
        "c._multi.1.i: got 1,025"),
    "time": (TIMED.replace("2026-01-02T03:04:05Z", "x").encode(), "line 2: predicted_at: got 'x'; must be a time"),
    "time without a zone": (TIMED.replace("Z", "").encode(),
        "line 2: predicted_at: got '2026-01-02T03:04:05'; must be"),
    "propensity below 1e-12": (CSV.replace("0.25", "9e-13").encode(),
        "line 3: propensity: got 9e-13; must be in [1e-12, 1]"),
    "not eligible": (ELIGIBLE.replace("b,", "a,").encode(), "line 2: label: got 'a'; the eligible labels are b"),
    "unknown eligible": (ELIGIBLE.replace('[""b""]', '[""z""]').encode(), "line 2: eligible: got 'z'"),
    "eligible twice": (ELIGIBLE.replace('[""b""]', '[""b"",""b""]').encode(), "line 2: eligible: got ['b', 'b']"),
    "eligible is empty": (ELIGIBLE.replace('[""b""]', "[]").encode(), "line 2: eligible: got []"),
    "eligible is a text": (ELIGIBLE.replace('[""b""]', '""b""').encode(), "line 2: eligible: got 'b'"),
    "dsjson action": (json.dumps(DSJSON | {"_label_Action": 3}).encode(), "line 1: _label_Action: got 3"),
    "log of sets": (b'{"context": [], "labels": ["a"], "rounds_seen": 1}', "line 1: is a round with several labels"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, what: str) -> None:
    content, reason = BAD[what]
    shape = ACTIONS if content.startswith(b"{") else DENSE
    with pytest.raises(FileError) as refused:
        rounds(written(tmp_path, content), shape)
    assert str(refused.value).startswith(f"{tmp_path}/file: ")
    assert reason in str(refused.value)


def test_what_vowpal_wabbit_writes_is_read(tmp_path: Path) -> None:
    for logged, listed in ((0.8166667, 0.816666663), (0.05000000074505806, 0.05), (0.0166667, 0.0166666675)):
        rest = (1.0 - listed) / 2.0
        multi = {"c": {"_multi": [{"i": 1}, {"i": 2}, {"i": 3}]}}
        given = DSJSON | multi | {"a": [2, 3, 1], "p": [listed, rest, rest], "_label_probability": logged}
        (found,) = rounds(written(tmp_path, json.dumps(given)), ACTIONS)
        assert (found["label"], found["propensity"]) == ("2", logged)
    (plain,) = rounds(written(tmp_path, json.dumps({k: v for k, v in DSJSON.items() if k not in "ap"})), ACTIONS)
    assert (plain["label"], plain["propensity"]) == ("y", 0.5)


def line(number: int, **fields: Any) -> dict[str, Any]:
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


@pytest.mark.parametrize("format_", ["parquet", "ndjson"])
def test_costs_are_read(tmp_path: Path, format_: str) -> None:
    """What only the answer cost is a cost, unless the model has the same; an evaluation keeps what is logged."""
    given = [line(1, cost=0.5), line(2, cost=2.0, cost_weight=0.25, costs={"a": 1.0, "b": 2.0}), line(3)]
    path = Export(tmp_path / f"out.{format_}", format_, MODEL).write(Lines(given, [None] * 3))
    both = {"a": 1.0, "b": 2.0}
    assert [each.get("costs") for each in rounds(path, DENSE)] == [{"b": 0.5}, both, None]
    same = DENSE._replace(costs={"a": 0.0, "b": 0.5}, retired=frozenset("a"))
    assert [each.get("costs") for each in rounds(path, same)] == [None, {"b": 2.0}, None]
    assert not any({"cost", "cost_weight"} & set(each) for each in rounds(path, DENSE))
    for chosen, names in ((Chosen(costs=False), set()), (Chosen(as_logged=True), {"cost", "cost_weight", "costs"})):
        found = [row.round for row in open_reader(path, None, chosen).rows(DENSE)]
        expected = [{name: each[name] for name in names if each.get(name) is not None} for each in given]
        assert [{k: v for k, v in each.items() if k.startswith("cost")} for each in found] == expected
    described = {"features": {"kind": "none"}, "labels": ["a", "b"], "costs": {"b": 1.0}, "retired_labels": ["a"]}
    expected_shape = Shape("none", 0, {"a": 0, "b": 1}, False, {"a": 0.0, "b": 1.0}, frozenset("a"))
    assert shape_of(described) == expected_shape
    labelled = written(tmp_path, 'f,true_label,costs\n1,a,"{""a"": 1, ""c"": 2}"\n2,b,\n', "labelled.csv")
    assert [each.get("costs") for each in rounds(labelled, None)] == [{"a": 1.0, "c": 2.0}, None]
    assert survey(labelled, open_reader(labelled, None, Chosen()))["labels"] == ["a", "b", "c"]


@pytest.mark.parametrize(("fields", "said"), [
    ({"costs": {"z": 1.0}}, "costs: got 'z'; the labels of the model are a, b"),
    ({"costs": {"a": -1.0}}, "costs.a: got -1.0; must be from 0 to 1,000,000"),
    ({"costs": {"a": float("inf")}}, "costs.a: got inf; must be finite"),
    ({"costs": {"a": None}}, "costs.a: got None; must be a number"),
    ({"costs": [1.0]}, "costs: got [1.0]; must be an object of labels and costs"),
    ({"costs": "{"}, "costs: is not JSON"),
    ({"cost": -0.5}, "cost: got -0.5; must be from 0 to 1,000,000"),
    ({"cost": 1e7}, "cost: got 10000000.0; must be from 0"),
    ({"cost": "dear"}, "cost: got 'dear'; must be a number"),
    ({"cost_weight": -1.0}, "cost_weight: got -1.0; must be from 0"),
    ({"actions": [{"id": "b", "features": {}, "cost": -1.0}], "propensity": 1.0}, "actions.0.cost: got -1.0"),
])  # fmt: skip
def test_impossible_costs_are_refused(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    path = written(tmp_path, json.dumps(line(1) | fields) + "\n", "log.ndjson")
    with pytest.raises(FileError) as refused:
        list(open_reader(path, None, Chosen(as_logged=True)).rows(ACTIONS if "actions" in fields else DENSE))
    assert str(refused.value).startswith(f"{path}: line 1: {said}")


def test_no_column_of_an_export_is_a_feature() -> None:
    exported = {*exported_types(Path()), *RoundLine.model_fields} - {"context"}
    assert find_columns([*sorted(exported), "f"], Chosen()).features == ("f",)


@pytest.mark.parametrize("format_", ["parquet", "ndjson"])
def test_whether_abstentions_are_left_out_does_not_depend_on_the_model(tmp_path: Path, format_: str) -> None:
    """Otherwise a label that is added later would change the numbers of the rounds in the file."""
    given = [line(1, abstained=False), line(2, label="c", abstained=True, reward=0.6, true_label="a")]
    path = Export(tmp_path / f"out.{format_}", format_, MODEL).write(Lines(given, [None, None]))
    abstaining = DENSE._replace(labels={"a": 0, "b": 1, "c": 2})
    without = open_reader(path, None, Chosen(abstentions=False))
    for shape in (DENSE, abstaining, None):
        assert ([row.round["label"] for row in without.rows(shape)], without.skipped) == (["b"], 1)
    assert [each["label"] for each in rounds(path, abstaining)] == ["b", "c"]
    with pytest.raises(FileError, match=r"label: got 'c', an abstention; .* --without-abstentions"):
        rounds(path, DENSE)


def test_long_lists_of_labels_say_how_many_are_left_out(tmp_path: Path) -> None:
    many = [f"l{number}" for number in range(25)]
    first = ", ".join(many[:20])
    shape = DENSE._replace(labels={label: number for number, label in enumerate(many)})
    eligible = json.dumps(many[:-1]).replace('"', '""')
    for content, said in (
        (CSV, f"got 'a'; the labels of the model are {first} and 5 more"),
        (f'f,g,label,propensity,reward,eligible\n1,2,l24,0.5,1,"{eligible}"\n', f"labels are {first} and 4 more"),
    ):
        with pytest.raises(FileError, match=said):
            rounds(written(tmp_path, content), shape)


def test_dsjson_names_the_labels_that_a_prediction_had(tmp_path: Path) -> None:
    model = MODEL | {"labels": ["a", "b", "c"]}
    path = Export(tmp_path / "out.dsjson", "dsjson", model).write(
        Lines([line(1), line(2)], [[0.75, 0.25], None], [2, 3])
    )
    first, second = [json.loads(text) for text in path.read_text().splitlines()]
    assert ([each["_tag"] for each in first["c"]["_multi"]], first["p"]) == (["a", "b"], [0.25, 0.75])
    assert ([each["_tag"] for each in second["c"]["_multi"]], len(second["p"])) == (["a", "b", "c"], 3)


def test_parquet_needs_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = Export(tmp_path / "out", "parquet", MODEL)
    export.begin()
    part = export.write(Lines([line(1)], [None]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for refused in (lambda: rounds(part, DENSE), lambda: read_table(part), export.begin):
        with pytest.raises(FileError, match=r"Parquet needs pyarrow.*wager\[tools\]"):
            refused()
    assert len(rounds(written(tmp_path, CSV), DENSE)) == 2


def test_rows_may_have_line_breaks_and_tabs(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, 'f,label\n"a\n\nb",x\n\nc,y\n'))
    assert (table.column("f"), list(table.places)) == (["a\n\nb", "c"], ["line 2", "line 6"])
    tabs = written(tmp_path, gzip.compress(b"f\tlabel\na,b\tx\n"), "file.tsv.gz")
    assert read_table(tabs).values == [["a,b"], ["x"]]
    assert rounds(tabs, Shape("named", 0, {"x": 0, "y": 1}, False)) == [{"context": {"f": "a,b"}, "true_label": "x"}]
    with pytest.raises(FileError, match="line 3: has 1 values"):
        read_table(written(tmp_path, '"f","label"\na,x\nc\n'))


class Broken(io.BytesIO):
    """A file on a disk that fails."""

    def readline(self, _: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


def test_a_failing_disk_is_not_called_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "open_bytes", lambda _: Broken())
    with pytest.raises(FileError, match="line 1: cannot be read: Input/output error"):
        list(lines.read_lines(tmp_path / "file"))


def test_errors_pass_between_processes(tmp_path: Path) -> None:
    error = copy.copy(FileError(tmp_path, "line 3", "is wrong"))
    assert (str(error), error.place) == (f"{tmp_path}: line 3: is wrong", "line 3")


HALF = {
    "dsjson": json.dumps(DSJSON | {"c": {"a": "b", "_multi": [{"i": "\ud800"}, {"i": "x"}]}}),
    "ndjson": '{"label": "a", "propensity": 0.5, "correct": true, "context": {"a\\udc00": 1}, "rounds_seen": 0}',
    "csv": 'context,label\n"{""a"": ""\\ud800""}",a',
}


@pytest.mark.parametrize("kind", HALF)
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, HALF[kind] + "\n")
    with pytest.raises(FileError, match=r"(line|row) [12].*half of a surrogate pair at character"):
        list(open_reader(path, kind, Chosen()).rows(None))


def exported(folder: Path, format_: str, *parts: range) -> Export:
    labels = ["a"] * (format_ == "dsjson")
    export = Export(folder, format_, MODEL | {"labels": ["a", "b"]} if labels else MODEL)
    export.begin()
    for numbers in parts:
        export.write(Lines([line(number) for number in numbers], [None] * len(numbers)))
    return export


def part(folder: Path, first: int, format_: str) -> Path:
    return folder / f"part-{first:012}{SUFFIXES[format_]}"


@pytest.mark.parametrize("format_", SUFFIXES)
def test_holes_are_the_rounds_of_no_part(tmp_path: Path, format_: str) -> None:
    export = exported(tmp_path, format_, range(1, 11), range(11, 21), range(21, 31), range(34, 36))
    assert export.begin() == [Hole(30, 33), Hole(35, None)]
    part(tmp_path, 11, format_).unlink()
    assert export.begin() == [Hole(10, 20), Hole(30, 33), Hole(35, None)]
    assert export.begin(15) == [Hole(15, 20), Hole(30, 33), Hole(35, None)]
    part(tmp_path, 1, format_).unlink()
    assert export.begin() == [Hole(0, 20), Hole(30, 33), Hole(35, None)]
    assert export.begin(40) == [Hole(40, None)]


@pytest.mark.parametrize("format_", SUFFIXES)
def test_damaged_parts_are_named(tmp_path: Path, format_: str) -> None:
    export = exported(tmp_path, format_, range(1, 11), range(11, 21), range(21, 31))
    middle = part(tmp_path, 11, format_)
    whole = middle.read_bytes()
    half, third = len(whole) // 2 + 7, len(whole) // 3  # within lines
    other = part(tmp_path, 21, format_).read_bytes()
    within = whole[:50] + whole[60:] if format_ == "parquet" else b""  # in a value of a text, nothing tells it
    for damaged in (b"", whole[:half], whole[:-1], whole[:third] + whole[half:], within, other):
        middle.write_bytes(damaged)
        with pytest.raises(FileError, match="repeat the command") as refused:
            export.begin()
        assert str(middle) in str(refused.value)
        assert "\n" not in str(refused.value)
    middle.write_bytes(whole)
    assert export.begin() == [Hole(30, None)]


def test_a_part_cut_at_the_end_of_a_line_leaves_a_hole(tmp_path: Path) -> None:
    export = exported(tmp_path, "ndjson", range(1, 11), range(11, 21), range(21, 31))
    lines = part(tmp_path, 11, "ndjson").read_bytes().splitlines(keepends=True)
    part(tmp_path, 11, "ndjson").write_bytes(b"".join(lines[:4]))
    assert export.begin() == [Hole(14, 20), Hole(30, None)]


def test_overlapping_parts_are_refused(tmp_path: Path) -> None:
    export = exported(tmp_path, "ndjson", range(1, 11), range(11, 21))
    exported(tmp_path, "ndjson", range(15, 31))
    with pytest.raises(FileError, match=r"part-000000000015.ndjson: begins with round 15, but part-0+11.* round 20"):
        export.begin()


def test_dsjson_of_chosen_actions_is_refused(tmp_path: Path) -> None:
    export = Export(tmp_path / "out", "dsjson", MODEL | {"labels": [], "actions": {}})
    export.begin()
    chosen = line(1, actions=[{"id": "b", "features": {}, "probability": None}], action_count=2)
    with pytest.raises(FileError, match="round 1: has only the chosen action"):
        export.write(Lines([chosen], [None]))


NAMED = Shape("named", 0, DENSE.labels, False)
FEATURES: dict[str, tuple[Any, str]] = {
    "a number": (5, "context: got 5; must be an object, or a list of numbers"),
    "null": (None, "context: got null; must be an object, or a list of numbers"),
    "a text": ("5", 'context: got "5"; must be an object'),
    "a list of numbers and text": ({"f": [1, "2"]}, "context.f: got 1 in a list; features are"),
    "a list with NaN": ({"f": [1.5, math.nan]}, "context.f: got nan; must be finite"),
    "a list of lists": ({"f": [[1]]}, "context.f: got [1] in a list; features are numbers"),
    "a list with null": ({"f": {"g": ["a", None]}}, "context.f.g: got None in a list; features are"),
    "a long text": ({"f": "x" * 1025}, "context.f: got 1,025 characters; must have at most 1,024"),
    "a long text in a list": ({"f": ["x" * 1025]}, "context.f: got 1,025 characters"),
    "a long name": ({"f": {"x" * 255: 1}}, "context: has a name of 257 characters; must have at most 256"),
    "not a number": ({"f": math.nan}, "context.f: got nan; must be finite"),
    "a huge integer": ({"f": 10**400}, "context.f: got 1000"),
    "deep objects": (json.loads('{"f":' * 9 + "1" + "}" * 9), "context: has objects in more than 8 levels"),
}  # fmt: skip


@pytest.mark.parametrize("what", FEATURES)
@pytest.mark.parametrize("format_", ["csv", "ndjson"])
def test_features_are_checked_in_the_file(tmp_path: Path, what: str, format_: str) -> None:
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
    "date32[day]": (pa.date32(), date(2026, 1, 2)), "timestamp[us, tz=UTC]": (pa.timestamp("us", "UTC"), MOMENT),
    "timestamp[ns]": (pa.timestamp("ns"), 1_001), "decimal128(5, 2)": (pa.decimal128(5, 2), Decimal("1.25")),
    "binary": (pa.binary(), b"x"), "struct<a: int64>": (pa.struct({"a": pa.int64()}), {"a": 1}),
    "list<element: bool>": (pa.list_(pa.field("element", pa.bool_())), [True]),
}  # fmt: skip


def table(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table({"label": ["a", "b"] * 2, **columns}), path)
    return path


def test_plain_columns_are_features(tmp_path: Path) -> None:
    texts = pa.array(["x", "y", None, "x"])
    path = table(
        tmp_path / "log.parquet",
        i=pa.array([1, 2, None, 4], pa.uint8()),
        f=pa.array([1.5, 2.0, 3.0, 4.0], pa.float32()),
        b=[True, False, True, None],
        s=texts.cast(pa.large_string()),
        d=texts.dictionary_encode(),
        l=pa.array([["x"], [], None, ["y", "z"]]),
        v=pa.array([[0.5, 2.0]] * 4, pa.list_(pa.float32(), 2)),
        n=pa.nulls(4),
    )
    first, *_ = rounds(path, NAMED)
    assert first == {
        "true_label": "a",
        "context": {"i": 1, "f": 1.5, "b": True, "s": "x", "d": "x", "l": ["x"], "v": [0.5, 2.0]},
    }


@pytest.mark.parametrize("what", TYPES)
def test_other_columns_are_refused_by_every_command(tmp_path: Path, what: str) -> None:
    type_, value = TYPES[what]
    path = table(tmp_path / "log.parquet", f=[1, 2, 3, 4], when=pa.array([None, None, value, None], type_))
    refused = f"{path}: the column 'when' has the type {what}; features are {ALLOWED}"
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
    ("context", "reason"), [("5", ": got 5"), ("null", ": got null"), ('{"f": [[1]]}', ".f: got [1] in")]
)
def test_contexts_of_a_log_are_checked(tmp_path: Path, context: str, reason: str) -> None:
    columns = log_columns(4)
    columns["context"][2] = context
    path = write_part(tmp_path / "part.parquet", columns)
    found = CliRunner().invoke(app, ["evaluate", str(path)])
    with pytest.raises(FileError) as error:
        survey(path, open_reader(path, None, Chosen()))
    assert (found.exit_code, found.stderr.strip()) == (1, f"wager: {error.value}")
    assert f"{path}: row 3: context{reason}" in found.stderr


def test_parts_have_the_same_columns(tmp_path: Path) -> None:
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
    columns = {"propensity": [0.5] * 4, "reward": [1.0] * 4, "f": [1, 2, 3, 4]}
    moments = pa.array([1_700_000_000_000_000_001] * 4, pa.timestamp("ns", "UTC"))
    path = table(tmp_path / "log.parquet", predicted_at=moments, **columns)
    assert {each["at"] for each in rounds(path, NAMED)} == {"2023-11-14T22:13:20Z"}
    table(path, predicted_at=moments.cast(pa.timestamp("ns")), **columns)
    with pytest.raises(FileError, match="row 1: predicted_at: got 2023-11-14T22:13:20; must be a time from 1970 on"):
        rounds(path, NAMED)
