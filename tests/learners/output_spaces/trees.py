"""A space that only has an oracle: the spanning trees of the complete graph with four nodes."""

import itertools
import math

import numpy as np

from learners.base import FloatArray
from learners.output_spaces.base import Constants
from learners.output_spaces.polytope import Polytope, steepness

EDGES = list(itertools.combinations(range(4), 2))


class Trees(Polytope):
    name = "trees"
    dimension = len(EDGES)
    regularization = None

    @property
    def constants(self) -> Constants:
        gamma, nu = steepness(6, 3, 6), math.sqrt(2.0)
        return Constants(gamma, nu, 8.0 * gamma / nu, 1.0, math.sqrt(6.0))

    def oracle(self, costs: FloatArray) -> FloatArray:
        """Return the spanning tree of least cost, by Kruskal's method."""
        tree, component = np.zeros(len(EDGES)), list(range(4))
        for edge in np.argsort(costs, kind="stable"):
            one, other = (component[node] for node in EDGES[edge])
            if one != other:
                tree[edge] = 1.0
                component = [one if each == other else each for each in component]
        return tree
