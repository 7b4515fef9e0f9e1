"""The law of imported files: whatever their bytes, a reader yields rounds that the service reads, or a `FileError`."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings

from tests.service.damaged_bytes import FUZZ, damaged
from toolkit.files.columns import Chosen
from toolkit.files.lines import FileError
from toolkit.files.readers import open_reader, survey
from toolkit.files.rows import Shape

LABELS = {"a": 0, "b": 1}
SHAPES = [
    Shape("dense", 2, LABELS, False),
    Shape("sparse", 9, LABELS, False),
    Shape("named", 0, LABELS, False),
    Shape("named", 0, {}, True),
    None,
]
ROUND = {"round": 1, "prediction_id": "m:a", "label": "a", "propensity": 0.5, "correct": True, "true_label": "a"} | {
    "context": [1.0, 2.0],
    "rounds_seen": 0,
    "predicted_at": "2026-01-02T03:04:05Z",
    "feedback_at": None,
}
NDJSON = [
    ROUND,
    ROUND | {"context": {"a": {"b": 1.5}, "c": ["d", "e"]}},
    ROUND | {"label": "x", "actions": [{"id": "x", "features": {"p": 1}}, {"id": "y", "features": {}}]},
    ROUND | {"context": {"indices": [1, 3], "values": [0.5, 2.0]}, "eligible": ["a", "b"]},
    ROUND | {"cost": 0.5, "cost_weight": 1.5, "costs": {"a": 0.5, "b": 2}},
    ROUND | {"label": "x", "actions": [{"id": "x", "features": {}, "tag": "t", "cost": 0.5}]} | {"propensity": 1},
]
DSJSON = {"_label_cost": -1.0, "_label_probability": 0.5, "_label_Action": 2, "_labelIndex": 1, "a": [2, 1]} | {
    "p": [0.5, 0.5],
    "EventId": "e",
    "Timestamp": "2026-01-02T03:04:05.1234567Z",
    "c": {"user": {"age": 3}, "_multi": [{"i": {"t": "p"}}, {"i": {"t": "q"}}]},
}
CSV = b"f,g,label,propensity,reward\n1,2,a,0.5,1\n3,4,b,0.25,0.5\n"
TABLE = {"f": [1.0, 2.0], "g": [1, 2], "label": ["a", "b"], "propensity": [0.5, 0.25], "reward": [1.0, 0.5]}
PRICED = {"cost": [0.5, None], "costs": pa.array([{"a": 0.5}, None], pa.map_(pa.string(), pa.float64()))}


def parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table({**TABLE, **columns}), sink)
    whole: bytes = sink.getvalue().to_pybytes()
    return whole


INTACT = {
    "ndjson": [json.dumps(each).encode() + b"\n" for each in NDJSON],
    "dsjson": [json.dumps(each).encode() + b"\n" for each in (DSJSON, DSJSON | {"_label_cost": 0.25})],
    "csv": [CSV, CSV.replace(b",", b"\t"), b'context,label\n"{""a"": 1}",a\n"[1,2]",b\n'],
    "parquet": [parquet(), parquet(**PRICED)],
}


@pytest.mark.parametrize("kind", INTACT)
def test_files_are_read_or_refused(tmp_path: Path, kind: str) -> None:
    """Every round is finite JSON that UTF-8 can encode, whatever the model; an intact file has rounds."""
    path, read = tmp_path / "file", set[bytes]()

    @settings(FUZZ, max_examples=60)
    @given(damaged(INTACT[kind]))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        for shape in SHAPES:
            with contextlib.suppress(FileError):
                for row in open_reader(path, kind, Chosen()).rows(shape):
                    if shape is not None:
                        json.dumps(row.round, allow_nan=False, ensure_ascii=False).encode()
                        read.add(data)
        with contextlib.suppress(FileError):
            survey(path, open_reader(path, kind, Chosen()))

    check()
    assert read & set(INTACT[kind])
