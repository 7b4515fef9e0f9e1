"""Rankings of all labels by gradient descent on a Fenchel-Young loss (see `structured`).

Sakaue, Bao, Tsuchiya and Oki 2024, section 3.2 (the Birkhoff polytope) and Appendix C.1 (the permutahedron).
"""

from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
import pydantic

from learners.algorithms.fenchel_young.structured import Drawing
from learners.base import BoolArray, FloatArray, IntArray
from learners.hyperparameters import Magnitude, hyperparameters, refusal
from learners.output_spaces.base import OutputSpace
from learners.output_spaces.birkhoff import Matching
from learners.output_spaces.permutahedron import Ranking

_MOST_LABELS = {"birkhoff": 20, "permutahedron": 1000}
"""The largest K of each polytope. At this K, an answer takes 5 to 10 ms (birkhoff) or 2 ms (permutahedron)."""


@hyperparameters
class FenchelYoungRanking(Drawing):
    """Answers with an order of all labels: gradient descent, and randomized decoding within the surrogate gap.

    On the `permutahedron`, each label has one score. A ranking is encoded as a vector of points for the labels, from K
    for the first down to 1 for the last. The target loss of an answer y' is ‖y - y'‖² divided by its maximum,
    K(K² - 1)/3, where y is the truth. On the `birkhoff` polytope, each label has a score for each place, K² in all,
    and the target loss is the share of labels in a wrong place.
    """

    algorithm = "fenchel-young-ranking"
    answer: ClassVar[Literal["label-set", "ranking"]] = "ranking"
    loss_name = "target loss"

    polytope: Literal["birkhoff", "permutahedron"] = "permutahedron"
    """`permutahedron` for up to 1000 labels; `birkhoff` for up to 20 labels, with a score for each label and place."""
    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖² on the permutahedron, greater than 4√(3/(K(K² - 1)))/√2; `null` for twice that."""
    sharpness: Annotated[float, pydantic.Field(ge=1e-6, lt=2)] | None = None
    """μ of the regularizer -H/μ on the Birkhoff polytope, H being the entropy; less than 2; `null` for 1."""

    def __post_init__(self) -> None:
        if self.problem.n_labels > _MOST_LABELS[self.polytope]:
            instead = "permutahedron" if self.problem.n_labels <= _MOST_LABELS["permutahedron"] else None
            hint = "fenchel-young-multilabel, which does not order" if instead is None else f"polytope {instead}"
            most = f"{self.polytope} allows at most {_MOST_LABELS[self.polytope]} labels"
            raise refusal("polytope", f"{most}; use {hint}")
        if self.polytope == "birkhoff" and self.regularization is not None:
            raise refusal("regularization", "the birkhoff polytope takes a sharpness instead")
        if self.polytope == "permutahedron" and self.sharpness is not None:
            raise refusal("sharpness", "the permutahedron takes a regularization instead")
        super().__post_init__()

    @property
    def constants_named(self) -> str:
        if self.polytope == "permutahedron":
            return "a = 1 - 4γ/(λ√2) with γ = √(3/(K(K² - 1))), b = 2X²/λ"
        return "a = 1 - μ/2, b = 2X²Kμ"

    @cached_property
    def space(self) -> OutputSpace:
        K = self.problem.n_labels
        if self.polytope == "permutahedron":
            return Ranking(n_items=K, regularization=self.regularization)
        return Matching(n_items=K, sharpness=1.0 if self.sharpness is None else self.sharpness)

    possible_named = "a ranking of all labels"

    def possible(self, answers: IntArray) -> BoolArray:
        possible: BoolArray = (np.sort(answers, axis=1) == np.arange(self.problem.n_labels)).all(axis=1)
        return possible

    def vertices(self, labels: IntArray) -> FloatArray:
        n, K = labels.shape
        places = np.empty((n, K), dtype=np.int64)
        np.put_along_axis(places, labels, np.arange(K)[None], axis=1)
        if self.polytope == "permutahedron":
            return np.asarray(K - places, dtype=np.float64)
        return np.asarray((places[:, :, None] == np.arange(K)).reshape(n, K * K), dtype=np.float64)

    def rows(self, vertices: FloatArray) -> IntArray:
        K = self.problem.n_labels
        if self.polytope == "permutahedron":
            return np.asarray(np.argsort(-vertices, axis=1), dtype=np.int64)
        return np.asarray(vertices.reshape(-1, K, K).argmax(axis=1), dtype=np.int64)

    def probabilities(self, means: FloatArray) -> FloatArray:
        """Return an empty array, (n, 0), because the probabilities of K! rankings would be too many."""
        return np.empty((len(means), 0))
