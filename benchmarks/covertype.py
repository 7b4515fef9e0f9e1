"""Accuracy on Covertype with bandit feedback over HTTP: `python -m benchmarks.covertype PATH`.

PATH is a CSV file, optionally xz-compressed, with a header. A row has ten numbers, the wilderness area (0-3), the soil
type (0-39) and the cover type (1-7). `benchmarks.datasets` describes how rows become contexts. The service divides each
context by its norm.
"""

import sys
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.datasets import read_covertype
from benchmarks.server import running
from learners.base import BoolArray, FloatArray

ROWS, BATCH = 50_000, 25

SETTINGS: dict[str, dict[str, Any]] = {
    "fastcb (recommended)": {"algorithm": "fastcb"},
    "squarecb": {"algorithm": "squarecb"},
    "gaptron": {"algorithm": "gaptron"},
    "soba-diagonal": {"algorithm": "soba-diagonal"},
    "uniform": {"algorithm": "uniform"},
}


def play(
    client: httpx2.Client, name: str, learner: dict[str, Any], contexts: FloatArray, truth: list[str]
) -> BoolArray:
    """Predict and give feedback for every row in order. Return whether each prediction was right, (n,)."""
    labels = sorted(set(truth))
    features = {"kind": "dense", "size": contexts.shape[1], "norm": "unit"}
    definition = {"name": name, "labels": labels, "features": features, "learner": learner}
    client.post("/models", json=definition).raise_for_status()
    right = np.zeros(len(truth), dtype=np.bool_)
    for start in track(range(0, len(truth), BATCH), description=name, transient=True):
        batch = contexts[start : start + BATCH].tolist()
        answer = client.post("/predict/batch", json={"model": name, "contexts": batch}).raise_for_status()
        given = []
        for i, prediction in enumerate(answer.json()["predictions"], start):
            right[i] = prediction["label"] == truth[i]
            given.append({"prediction_id": prediction["prediction_id"], "correct": bool(right[i])})
        client.post("/feedback/batch", json={"feedback": given}).raise_for_status()
    return right


def main() -> None:
    """Print the accuracy of each setting, and of always predicting the majority class."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).exists():
        print("skipped: pass the path of covertype.csv or covertype.csv.xz")
        return
    contexts, truth = read_covertype(Path(sys.argv[1]), ROWS)
    table = Table("learner", "all rounds", "last quarter", title=f"Covertype, first {len(truth):,} rows")
    majority = max(truth.count(label) for label in set(truth)) / len(truth)
    table.add_row("always the most common class", f"{majority:.3f}", "")
    with running() as server, httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=30) as client:
        for i, (what, learner) in enumerate(SETTINGS.items()):
            right = play(client, f"covertype-{i}", learner, contexts, truth)
            table.add_row(what, f"{right.mean():.3f}", f"{right[-len(right) // 4 :].mean():.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
