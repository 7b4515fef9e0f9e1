"""The papers' synthetic data, in chunks that depend only on the seed.

SynSep and SynNonSep: Kakade, Shalev-Shwartz and Tewari 2008, section 5, as used by Beygelzimer, Orabona and
Zhang 2017. There are nine classes of documents over 400 words. 120 words are keywords, and each class owns a random set
of 20 to 40 of them. A document has all but five of its class's keywords, and twenty of the other 280 words.
SynNonSep replaces the label of 5 % of the documents with another label.

Groups: after Fakcharoenphol and Prompak 2019. Nine classes in three groups in the unit disc, with margin γ = 0.005.
The paper gives these numbers but not the regions. Here group g is the third of the disc around the axis
a_g = (cos 2πg/3, sin 2πg/3). Two cuts parallel to the axis, at a distance of 0.2, divide it into three strips, the
classes 3g, 3g + 1 and 3g + 2. The decision regions of a linear learner are cones, so it cannot separate the classes of
a group.

In the paper's definition, Σ_g ‖u_g‖² ≤ 1 and Σ_g ‖u'_g‖² ≤ 1. With b_g orthogonal to a_g, take u_g = a_g / √3 and
u'_g = b_g / √3. A point x of group g has ⟨u_g - u_h, x⟩ ≥ γ for every other group h, and ⟨u'_g, x⟩ is at a distance of
at least γ from the two thresholds ∓0.2 / √3. Since ‖u_g - u_h‖ = 1 and ‖u'_g‖ = 1/√3, x is at a distance of at least γ
from the boundaries of its group, and √3 γ from those within it.
"""

from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, IntArray
from learners.kernels import compiled

N_CLASSES, N_KEYWORDS, N_WORDS = 9, 120, 400
_DROPPED, _GENERIC = 5, 20
LONGEST = 40 - _DROPPED + _GENERIC
"""The squared norm of a document is its number of words, 35 to 55."""

MARGIN = 0.005
"""γ."""


class Margins(NamedTuple):
    """The least distances of a point from boundaries."""

    between_groups: float
    within_group: float


LITERAL = Margins(MARGIN, np.sqrt(3.0) * MARGIN)
"""The paper's definition, in which each of the two sums of squared norms is at most 1."""
DOUBLED = Margins(2.0 * MARGIN, 2.0 * np.sqrt(3.0) * MARGIN)
"""The same with 2γ in place of γ."""
JOINT = Margins(2.0 * MARGIN, 2.0 * MARGIN)
"""One joint sum: Σ_g (‖u_g‖² + ‖u'_g‖²) ≤ 1, with u_g = a_g / (2√3) and u'_g = b_g / 2."""

_CUTS = np.array([-0.2, 0.2])
_ANGLES = 2.0 * np.pi * np.arange(3) / 3.0
_AXES = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)])
_ACROSS = np.stack([-np.sin(_ANGLES), np.cos(_ANGLES)])


def keywords(seed: int) -> list[IntArray]:
    """Draw the keywords of each class: 20 to 40 of 120."""
    rng = np.random.default_rng([seed, 1])
    return [rng.permutation(N_KEYWORDS)[: rng.integers(20, 41)] for _ in range(N_CLASSES)]


def documents(n: int, seed: int, chunk: int, noise: float) -> tuple[Contexts, IntArray]:
    """Generate n documents and their labels; a label is wrong with probability `noise`.

    The first m of n documents do not depend on n.
    """
    owned = keywords(seed)
    table, sizes = np.zeros((N_CLASSES, 40), dtype=np.int64), np.array([len(own) for own in owned])
    for k, own in enumerate(owned):
        table[k, : len(own)] = own
    uniforms = np.random.default_rng([seed, 2, chunk]).random((n, 3 + _DROPPED + _GENERIC))
    classes = (uniforms[:, 0] * N_CLASSES).astype(np.int64)
    lengths = sizes[classes] - _DROPPED + _GENERIC
    starts = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.empty(starts[-1], dtype=np.int64)
    _write_documents(table, sizes, classes, uniforms[:, 3:], starts, indices)
    others = (classes + 1 + (uniforms[:, 2] * (N_CLASSES - 1)).astype(np.int64)) % N_CLASSES
    labels = np.where(uniforms[:, 1] < noise, others, classes)
    return Contexts(starts, indices, np.ones(len(indices)), False), labels


@compiled
def _write_documents(
    table: IntArray, sizes: IntArray, classes: IntArray, uniforms: FloatArray, starts: IntArray, indices: IntArray
) -> None:
    own, generic = np.empty(40, dtype=np.int64), np.empty(N_WORDS - N_KEYWORDS, dtype=np.int64)
    for i in range(len(classes)):
        size = sizes[classes[i]]
        own[:] = table[classes[i]]
        generic[:] = np.arange(N_KEYWORDS, N_WORDS)
        _select(own[:size], uniforms[i, :_DROPPED])
        _select(generic, uniforms[i, _DROPPED:])
        middle = starts[i] + size - _DROPPED
        indices[starts[i] : middle] = own[_DROPPED:size]
        indices[middle : starts[i + 1]] = generic[:_GENERIC]


@compiled
def _select(items: IntArray, uniforms: FloatArray) -> None:
    """Move a random choice of items to the front, one per uniform number, as in the Fisher–Yates shuffle."""
    for j in range(len(uniforms)):
        other = j + int(uniforms[j] * (len(items) - j))
        items[j], items[other] = items[other], items[j]


def grouped_points(n: int, seed: int, chunk: int, margins: Margins) -> tuple[Contexts, IntArray]:
    """Draw n points, uniform on the disc without its margins, with their classes 0 … 8, three per group."""
    rng = np.random.default_rng([seed, 3, chunk])
    kept: list[FloatArray] = []
    while sum(len(points) for points in kept) < n:
        points = _disc(rng, 4096)
        kept.append(points[_clear(points, margins)])
    points = np.concatenate(kept)[:n]
    groups = (points @ _AXES).argmax(axis=1)
    classes = 3 * groups + np.searchsorted(_CUTS, _across(points))
    return Contexts.dense(points), np.asarray(classes, dtype=np.int64)


def _disc(rng: np.random.Generator, n: int) -> FloatArray:
    radius, angle = np.sqrt(rng.random(n)), 2.0 * np.pi * rng.random(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def _across(points: FloatArray) -> FloatArray:
    """Return the signed distance of each point to the axis of its group."""
    groups = (points @ _AXES).argmax(axis=1)
    return np.asarray((points @ _ACROSS)[np.arange(len(points)), groups])


def _clear(points: FloatArray, margins: Margins) -> BoolArray:
    """Check if each point keeps its distances from the boundaries."""
    along = np.sort(points @ _AXES, axis=1)
    between_groups = (along[:, 2] - along[:, 1]) / np.sqrt(3.0)  # two axes differ by a vector of length √3
    within_group = np.abs(_across(points)[:, None] - _CUTS).min(axis=1)
    return np.asarray((between_groups >= margins.between_groups) & (within_group >= margins.within_group))
