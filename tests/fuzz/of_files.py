"""Files of rounds that users import."""

import json
import os
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from tests.fuzz.target import Target
from tests.toolkit.files.test_readers import CSV, DSJSON
from toolkit.files.columns import Chosen
from toolkit.files.lines import FileError
from toolkit.files.readers import open_reader, survey
from toolkit.files.rows import Shape

_SHAPES = [
    Shape("dense", 2, {"a": 0, "b": 1}, False),
    Shape("sparse", 9, {"a": 0, "b": 1}, False),
    Shape("named", 0, {"a": 0, "b": 1}, False),
    Shape("named", 0, {}, True),
]
_FOLDER = Path(tempfile.gettempdir()) / f"wager-fuzz-{os.getpid()}"
_ROUND = {
    "round": 1, "prediction_id": "m:a", "label": "a", "propensity": 0.5, "correct": True, "true_label": "a",
    "context": [1.0, 2.0], "rounds_seen": 0, "predicted_at": "2026-01-02T03:04:05Z", "feedback_at": None,
}  # fmt: skip


def _read(kind: str, data: bytes) -> bool:
    """Read a file for models of several kinds; every round that is read is JSON that the service reads."""
    _FOLDER.mkdir(exist_ok=True)
    path = _FOLDER / f"file.{kind}"
    path.write_bytes(data)
    found = 0
    try:
        for shape in (*_SHAPES, None):
            for format_ in (kind, None) if shape is None else (kind,):
                found += _rows(path, format_, shape)
        survey(path, open_reader(path, kind, Chosen()))
    except FileError:
        pass
    finally:
        path.unlink()
        _FOLDER.rmdir()
    return found > 0


def _rows(path: Path, format_: str | None, shape: Shape | None) -> int:
    found = 0
    try:
        for row in open_reader(path, format_, Chosen()).rows(shape):
            if shape is not None:
                json.dumps(row.round, allow_nan=False, ensure_ascii=False).encode()
            found += 1
    except FileError:
        pass
    return found


def targets() -> list[Target]:
    """Return a target for each format."""
    named = _ROUND | {"context": {"a": {"b": 1.5}, "c": ["d", "e"]}}
    acted = _ROUND | {"label": "x", "actions": [{"id": "x", "features": {"p": 1}}, {"id": "y", "features": {}}]}
    sparse = _ROUND | {"context": {"indices": [1, 3], "values": [0.5, 2.0]}, "eligible": ["a", "b"]}
    ndjson = [json.dumps(each).encode() + b"\n" for each in (_ROUND, named, acted, sparse)]
    fixed = DSJSON | {"_label_cost": 0.25, "c": {"a": 1.0, "_multi": [{"i": {"t": "p"}}, {"i": {"t": "q"}}]}}
    dsjson = [json.dumps(each).encode() + b"\n" for each in (DSJSON, fixed)]
    csv = [CSV.encode(), CSV.replace(",", "\t").encode(), b'context,label\n"{""a"": 1}",a\n"[1,2]",b\n']
    table = pa.table(
        {"f": [1.0, 2.0], "g": [1, 2], "label": ["a", "b"], "propensity": [0.5, 0.25], "reward": [1.0, 0.5]}
    )
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink)
    found = {
        "ndjson": [*ndjson, b"".join(ndjson[:2])],
        "dsjson": [*dsjson, b"".join(dsjson)],
        "csv": csv,
        "parquet": [sink.getvalue().to_pybytes()],
    }
    return [Target(f"file-{kind}", intact, partial(_read, kind)) for kind, intact in found.items()]
