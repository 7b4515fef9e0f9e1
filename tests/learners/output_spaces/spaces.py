"""Output spaces of every kind, small enough to enumerate their vertices."""

import itertools
from typing import Any

import numpy as np
import pytest

from learners.base import FloatArray
from learners.output_spaces.base import OutputSpace
from learners.output_spaces.binary import Multilabel, Ordinal
from learners.output_spaces.birkhoff import Matching
from learners.output_spaces.permutahedron import Ranking
from learners.output_spaces.simplex import Multiclass

SPACES: list[Any] = [
    *(Multiclass(n_labels=2), Multiclass(n_labels=5, regularization=3.0)),
    *(Multilabel(n_labels=1), Multilabel(n_labels=4)),
    *(Matching(n_items=2), Matching(n_items=3, sharpness=1.9), Matching(n_items=4)),
    *(Ranking(n_items=2), Ranking(n_items=3), Ranking(n_items=5)),
    *(Ordinal(n_steps=1), Ordinal(n_steps=6)),
]
EACH_SPACE = pytest.mark.parametrize("space", SPACES, ids=lambda space: f"{space.name}-{space.dimension}")
SCALES = (0.01, 0.3, 1.0, 3.0, 8.0)


def vertices(space: OutputSpace) -> FloatArray:
    """Return all outputs of a space (V, D)."""
    D = space.dimension
    if isinstance(space, Multiclass):
        return np.eye(D)
    if isinstance(space, Multilabel):
        return np.array(list(itertools.product((0.0, 1.0), repeat=D)))
    if isinstance(space, Matching):
        eye = np.eye(space.n_items)
        return np.array([eye[list(p)].reshape(-1) for p in itertools.permutations(range(space.n_items))])
    if isinstance(space, Ranking):
        return np.array(list(itertools.permutations(np.arange(1.0, D + 1.0))))
    return np.tri(D + 1, D, -1)


def regularizer(space: Any, points: FloatArray) -> FloatArray:
    """Return Ψ of points (n, D) of the hull."""
    if isinstance(space, Multiclass | Matching):
        entropy = -(points * np.log(np.maximum(points, 1e-300))).sum(axis=1)
        return np.asarray(-entropy * (space.regularization if isinstance(space, Multiclass) else 1 / space.sharpness))
    return np.asarray(space.constants.strong_convexity / 2 * (points**2).sum(axis=1))


def random_scores(space: OutputSpace, seed: int, n: int = 12) -> FloatArray:
    """Draw rows of scores, small and large, with ties and zeros included."""
    rng = np.random.default_rng(seed)
    rows = [scale * space.constants.strong_convexity * rng.normal(size=(n, space.dimension)) for scale in SCALES]
    tied = np.round(rng.normal(size=(n, space.dimension)))
    return np.concatenate([np.zeros((1, space.dimension)), tied, *rows])
