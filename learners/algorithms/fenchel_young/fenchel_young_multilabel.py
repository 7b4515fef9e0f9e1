"""Multilabel classification by gradient descent on a Fenchel-Young loss (see `structured`).

Sakaue, Bao, Tsuchiya and Oki 2024: Appendix C.1 ("multilabel classification") for any set, and section 3.1 with
Appendix B for sets of one size and for listed sets.
"""

from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
import pydantic

from learners.algorithms.fenchel_young.structured import Drawing
from learners.base import BoolArray, FloatArray, IntArray
from learners.hyperparameters import Magnitude, hyperparameters, refusal
from learners.output_spaces.binary import Binary, Multilabel
from learners.output_spaces.fixed_size import FixedSize
from learners.output_spaces.listed import Crf, Listed, Sets, fault_of


@hyperparameters
class FenchelYoungMultilabel(Drawing):
    """Answers with a set of labels: one score per label, and randomized decoding within the surrogate gap.

    The target loss is the share of labels wrongly included or excluded. By default, the answer may be any set. The
    means ŷ are then the scores θ, divided by λ and clipped to [0, 1]. The answer is y*, the set of labels with means
    above 1/2. With probability min(1, 2‖y* - ŷ‖), it is instead a random set, which includes each label independently
    with a probability equal to the label's mean. Before any feedback, the answer is the empty set.

    With a `set_size` or with `sets`, ŷ is the point nearest to θ/λ in the convex hull of the possible sets, and y* is
    the set nearest to ŷ. The random set has probability min(1, 2‖y* - ŷ‖/ν), where ν is the least distance between two
    sets; it is drawn from a few sets whose mean is ŷ. With the loss `crf`, it is instead drawn from all listed sets,
    with the softmax of their total scores divided by ρ as probabilities, and ŷ is its mean.
    """

    algorithm = "fenchel-young-multilabel"
    answer: ClassVar[Literal["label-set", "ranking"]] = "label-set"
    loss_name = "share of labels wrongly included or excluded"
    smaller = "fewer labels, sets or features"

    set_size: Annotated[int, pydantic.Field(ge=1, le=99_999)] | None = None
    """m, less than K: every answer and every truth has exactly this many labels, like a slate. `null`: any number."""
    sets: Sets | None = None
    """The sets that answers and truths may be, each as a string of K digits in the order of the labels: 1 for a label
    in the set, else 0, such as `["110", "011"]`. At most 1,000,000 digits in all. `null`: all sets."""
    loss: Literal["sparsemap", "crf"] = "sparsemap"
    """The surrogate loss: `sparsemap`, with the regularizer (λ/2)‖y‖², or `crf` (conditional random field),
    with the negative entropy of the law of the sets; it needs `sets`. Answers by `crf` vary more, and cost less."""
    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4γ/ν, which is 4/√K if any set is possible. For `crf`, the factor ρ
    of the entropy, greater than δ²/(Kν) if two sets differ in at least ν and at most δ labels. `null`: twice that."""

    def __post_init__(self) -> None:
        K = self.problem.n_labels
        if self.set_size is not None and self.set_size >= K:
            raise refusal("set_size", f"must be less than {K}, the number of labels")
        if self.sets is not None and self.set_size is not None:
            raise refusal("sets", "the sets have their own sizes; leave out set_size")
        if self.sets is not None and (fault := fault_of(self.sets, K)) is not None:
            raise refusal("sets", fault)
        if self.sets is None and self.loss == "crf":
            raise refusal("loss", "crf needs sets")
        super().__post_init__()

    @property
    def constants_named(self) -> str:
        if self.sets is None and self.set_size is None:
            return "a = 1 - 4/(λ√K), b = 2X²/λ"
        if self.sets is None:
            return f"a = 1 - 4γ/(λ√2) with γ = 2√(m(K - m)/K)/K, m = {self.set_size}, b = 2X²/λ"
        gamma, nu, strong_convexity = self.space.constants[:3]
        norm = ", in ℓ1" if self.loss == "crf" else ""
        return f"a = 1 - 4γ/(λν) with γ = {gamma:.4g}, ν = {nu:.4g}, λ = {strong_convexity:.4g}{norm}, b = 2X²/λ"

    @cached_property
    def space(self) -> Binary:
        if self.sets is not None:
            chosen = Crf if self.loss == "crf" else Listed
            return chosen(sets=self.sets, regularization=self.regularization)
        if self.set_size is not None:
            size = self.set_size
            return FixedSize(n_labels=self.problem.n_labels, size=size, regularization=self.regularization)
        return Multilabel(n_labels=self.problem.n_labels, regularization=self.regularization)

    @cached_property
    def _listed(self) -> frozenset[bytes]:
        return frozenset(each.encode() for each in self.sets or ())

    @property
    def possible_named(self) -> str:
        if self.sets is not None:
            return f"one of the {len(self.sets)} sets of the learner"
        return "a set of labels" if self.set_size is None else f"a set of {self.set_size} labels"

    def possible(self, answers: IntArray) -> BoolArray:
        possible: BoolArray = ((answers == 0) | (answers == 1)).all(axis=1)
        if self.set_size is not None:
            possible &= answers.sum(axis=1, dtype=np.int64) == self.set_size
        if self.sets is not None:
            digits = (answers == 1).astype(np.uint8) + ord("0")
            possible &= np.array([row.tobytes() in self._listed for row in digits], dtype=np.bool_)
        return possible

    def vertices(self, labels: IntArray) -> FloatArray:
        return labels.astype(np.float64)

    def rows(self, vertices: FloatArray) -> IntArray:
        return vertices.astype(np.int64)

    def probabilities(self, means: FloatArray) -> FloatArray:
        """Return the probability that each label is in the answer, (n, K)."""
        if self.sets is None and self.set_size is None:
            nearest = self.space.nearest(means)
            p = np.minimum(1.0, 2.0 * np.linalg.norm(nearest - means, axis=1, keepdims=True))
            return np.asarray(nearest + p * (means - nearest))
        result = np.empty((len(means), self.problem.n_labels))
        for i, mean in enumerate(means):
            result[i] = self.space.expected_output(mean)
        return np.clip(result, 0.0, 1.0, out=result)
