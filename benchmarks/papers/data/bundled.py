"""The tables that scikit-learn includes: https://scikit-learn.org/stable/datasets/toy_dataset.html."""

import importlib

import numpy as np

from benchmarks.datasets import Examples
from learners.base import Contexts

BUNDLED = ("digits", "wine", "iris", "breast-cancer")


def bundled(name: str) -> Examples:
    """Read a table: its columns as they are, and a constant 1."""
    load = getattr(importlib.import_module("sklearn.datasets"), f"load_{name.replace('-', '_')}")
    columns, labels = load(return_X_y=True)
    matrix = np.column_stack([columns, np.ones(len(columns))])
    return Examples(Contexts.dense(matrix), labels.astype(np.int64), int(labels.max()) + 1, matrix.shape[1])
