"""Any set of vectors of zeros and ones that has a linear oracle: the general decoder of section 3.1.

A subclass defines its `oracle`. One call finds the vertex nearest to a mean (Proposition 3.2). Frank-Wolfe finds the
mean, and the convex combination of vertices from which a random vertex is drawn (`learners.mathematics.frank_wolfe`).
"""

import math
from abc import abstractmethod

import numpy as np

from learners.base import BoolArray, FloatArray
from learners.mathematics.exploration import draw_one
from learners.mathematics.frank_wolfe import nearest_point
from learners.output_spaces.binary import Binary


class Polytope(Binary):
    """Vectors of zeros and ones with a linear oracle, the Hamming loss / D, and the regularizer (λ/2)‖y‖².

    The laws of random vertices are convex combinations of at most D + 1 vertices, whose mean is ŷ to 1e-9.
    """

    n_uniforms = 2  # one to mix, one to draw

    @abstractmethod
    def oracle(self, costs: FloatArray) -> FloatArray:
        """Return the vertex with the least ⟨c, y⟩; ties must be broken by the costs (D,) alone."""

    def is_vertex(self, output: FloatArray) -> bool:
        return bool(np.isin(output, (0.0, 1.0)).all() and np.array_equal(self.nearest(output), output))

    def nearest(self, mean: FloatArray) -> FloatArray:
        """Call the oracle once: ‖y - ŷ‖² = ‖ŷ‖² + ⟨1 - 2ŷ, y⟩ for a vector y of zeros and ones."""
        return self.oracle(1.0 - 2.0 * mean[: self.dimension])

    def decode(self, scores: FloatArray) -> FloatArray:
        """Project θ/λ onto the hull (SparseMAP)."""
        if not np.isfinite(scores).all():
            return np.full(self.dimension, np.nan)
        return _mean(*nearest_point(scores / self.constants.strong_convexity, self.oracle))

    def law(self, mean: FloatArray) -> tuple[FloatArray, FloatArray | BoolArray]:
        """Return the law of ỹ: m probabilities, which sum to 1, and m different vertices (m, D)."""
        return nearest_point(mean, self.oracle)

    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Draw one of the vertices that the mean is a convex combination of."""
        weights, vertices = self.law(mean)
        return np.asarray(vertices[draw_one(weights, uniforms[0])[0]], dtype=np.float64)

    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return the weight of the vertex in the convex combination."""
        weights, vertices = self.law(mean)
        return _weight(weights, vertices, output)

    def draw(self, mean: FloatArray, uniforms: FloatArray) -> tuple[FloatArray, float]:
        """Do the same as `OutputSpace.draw`, with one call of `nearest` and one of `law`."""
        nearest, (weights, vertices) = self.nearest(mean), self.law(mean)
        p = self._mixing(mean, nearest)
        output = nearest
        if uniforms[0] < p:
            output = np.asarray(vertices[draw_one(weights, uniforms[1])[0]], dtype=np.float64)
        return output, (1.0 - p) * np.array_equal(output, nearest) + p * _weight(weights, vertices, output)


def steepness(n_free: int, size: int | None, dimension: int) -> float:
    """Return γ of the Hamming loss / D in ℓ2, where n_free coordinates differ between vertices.

    The loss is ‖y' - y‖₁/D. It is steepest along a difference y' - y that is equal in all free coordinates. If `size`
    of these are 1 in each vertex, differences sum to 0. The steepest one is then proportional to -1/size where y is 1,
    and to 1/(n_free - size) in the other free coordinates.
    """
    if size is None:
        return math.sqrt(n_free) / dimension
    return 2.0 * math.sqrt(size * (n_free - size) / n_free) / dimension


def _mean(weights: FloatArray, vertices: FloatArray) -> FloatArray:
    mean = np.zeros(vertices.shape[1])
    for weight, vertex in zip(weights, vertices, strict=True):  # BLAS may vary the order of summation
        mean += weight * vertex
    return mean


def _weight(weights: FloatArray, vertices: FloatArray | BoolArray, output: FloatArray) -> float:
    return float(weights[(vertices == output).all(axis=1)].sum())
