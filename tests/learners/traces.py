"""Traces computed by slow, independent code (`tests/data`), and the world of the long traces."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from learners.base import FloatArray
from tests.learners.worlds import World

DATA = Path(__file__).parent.parent / "data"
MICRO: dict[str, Any] = json.loads((DATA / "traces.json").read_text())
LONG: dict[str, Any] = json.loads((DATA / "long_traces.json").read_text())
TOLERANCE = 1e-9


def long_teacher() -> FloatArray:
    """Return the comparator U (K, d) of the long traces."""
    k, j = np.mgrid[0:4, 0:5]
    return np.asarray(np.cos(1.1 * (k + 1) * (j + 2)))


def long_world() -> World:
    t, j = np.mgrid[0:500, 0:5]
    x = np.cos(0.7 * (t + 1) * (j + 1) + 0.3 * j) / np.sqrt(5)
    y = (x @ long_teacher().T).argmax(axis=1)
    y[np.arange(500) % 13 == 5] = (y[np.arange(500) % 13 == 5] + 1) % 4
    return World(x, y, np.modf((np.arange(500) + 1) * 0.6180339887498949)[0])
