"""Small logs in the format of an export, for the tests of `wager evaluate`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LABELS = ["red", "green", "blue"]
MODEL = {
    "name": "colours",
    "labels": LABELS,
    "features": {"kind": "dense", "size": 2, "norm": "scale", "norm_bound": 1.0, "intercept": True},
    "learner": {"algorithm": "fastcb"},
}
_TYPES = {"round": pa.int64(), "label": pa.string(), "eligible": pa.list_(pa.string()), "true_label": pa.string()}
_TYPES |= {"cost": pa.float64(), "cost_weight": pa.float64(), "costs": pa.map_(pa.string(), pa.float64())}


def log_columns(n: int, seed: int = 0) -> dict[str, list[Any]]:
    """Return n rounds of a policy that depends on the context; the rewards are 0.2, 0.5 and 0.8 in the mean."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-0.7, 0.7, (n, 2))
    scores = np.exp(np.column_stack([contexts[:, 0], contexts[:, 1], np.zeros(n)]))
    p = scores / scores.sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(0, 2)
    return {
        "round": list(range(1, n + 1)),
        "label": [LABELS[k] for k in labels],
        "propensity": p[np.arange(n), labels].tolist(),
        "reward": (rng.random(n) < 0.2 + 0.3 * labels).astype(float).tolist(),
        "true_label": [None] * n,
        "context": [json.dumps(row) for row in contexts.tolist()],
        "eligible": [None] * n,
        "holdout": [False] * n,
    }


def write_part(path: Path, columns: dict[str, list[Any]], model: Any = MODEL, version: int = 1) -> Path:
    """Write a part."""
    metadata = {"wager": json.dumps({"version": version, "model": model})}
    arrays = {name: pa.array(column, _TYPES.get(name)) for name, column in columns.items()}
    pq.write_table(pa.table(arrays).replace_schema_metadata(metadata), path)
    return path


def write_folder(folder: Path, columns: dict[str, list[Any]], bounds: list[int]) -> Path:
    """Write rows of columns as parts that begin at these rows; return the folder."""
    folder.mkdir()
    ends = [*bounds[1:], len(columns["round"])]
    for start, end in zip(bounds, ends, strict=True):
        some = {name: column[start:end] for name, column in columns.items()}
        write_part(folder / f"part-{some['round'][0]:012}.parquet", some)
    return folder
