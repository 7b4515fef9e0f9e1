"""Bandit perceptrons with the rational kernel, for labels that are not linearly separable.

Beygelzimer, Pál, Szörényi, Thiruvenkatachari, Wei, Zhang, "Bandit Multiclass Linear Classification: Efficient
Algorithms for the Separable Case", ICML 2019, Algorithm 2; Jittat Fakcharoenphol and Chayutpong Prompak, "Bandit
Multiclass Linear Classification for the Group Linear Separable Case", 2019. Claims and corrections are those of
`bandit_perceptrons`.
"""

from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import pydantic

from learners.algorithms.first_order.bandit_perceptrons import claim, corrections
from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, Layout
from learners.learner import CompiledLearner
from learners.mathematics.guarantees import no_recovery, strong_margin


class BanditPerceptronsKernelState(NamedTuple):
    """The support vectors, each with one coefficient per label. Only the first `used` of them are valid."""

    support: Annotated[FloatArray, Layout("float64", ("d", "max_support"))]  # one context per column
    coefficients: Annotated[FloatArray, Layout("float64", ("max_support", "K"))]
    used: Count
    refused: Count  # rounds that would have added a support vector but found no room
    rounds: Count  # rounds folded so far
    updates: Count  # corrections of binary perceptrons so far, over all labels


@hyperparameters
class BanditPerceptronsKernel(CompiledLearner[BanditPerceptronsKernelState]):
    """Bandit perceptrons with the rational kernel k(x, x') = 1 / (1 - ⟨x, x'⟩/2), for data not linearly separable.

    A round with corrections adds its context to the support or, if the context is already there, changes its
    coefficients. Stored contexts are never replaced. If all `max_support` places are taken, rounds with corrections for
    new contexts are skipped and counted in `refused`, and the guarantee ends. The norm bound must be 1.
    """

    algorithm = "bandit-perceptrons-kernel"
    smaller = "bandit-perceptrons"
    labels_grow: ClassVar[bool] = True
    state_type = BanditPerceptronsKernelState
    evidence_size = 1  # whether no label claimed the context

    kernel: Literal["rational", "linear"] = "rational"
    """`rational`, or `linear`: the same as bandit-perceptrons but slower, for comparisons."""
    max_support: Annotated[int, pydantic.Field(ge=1, le=1_000_000)] = 1000
    """The maximum number of stored contexts; time and memory grow with it."""
    use_known_label: bool = False
    """Whether a right answer, which reveals the true label, corrects all perceptrons. Algorithm 1 does not do so, the
    authors' code does, and the guarantee covers both.
    """

    def __post_init__(self) -> None:
        if self.problem.norm_bound != 1.0:
            raise ValueError("the rational kernel is defined on the unit ball: scale contexts to a norm bound of 1")

    @property
    def guarantee(self) -> str:
        square = "R² = 2" if self.kernel == "rational" else "R = 1"
        proved = strong_margin(
            f", in the kernel's space with {square} (Fakcharoenphol and Prompak 2019), but only while there is room: "
            f"once {self.max_support:,} contexts (max_support) are stored and a round is skipped, nothing is proved",
            "‖x‖ ≤ 1",
        )
        return f"{proved} {no_recovery('it learns from no new context', 'once max_support contexts are stored, ')}"

    def decide_cost(self, nonzeros: int) -> int:
        return self.max_support * (self.problem.n_labels + nonzeros)

    def fold_cost(self, nonzeros: int) -> int:
        return 2 * self.max_support * (self.problem.n_labels + nonzeros)

    def warnings(self, state: BanditPerceptronsKernelState) -> list[str]:
        if state.used < self.max_support:
            return []
        stored, skipped = f"{self.max_support:,} contexts are stored", f"{state.refused:,} rounds were skipped since"
        return [f"max_support: {stored}; {skipped}."]

    @property
    def kernels(self) -> Kernels:
        return Kernels((self.use_known_label, self.kernel == "rational"), _kernel_decide, _kernel_fold)


@compiled
def _used(state: BanditPerceptronsKernelState) -> int:
    """Return the number of support vectors, at most the array's length even if the state is corrupt."""
    return max(0, min(state.used.item(), len(state.coefficients)))


@compiled
def _kernel_decide(
    parameters: tuple[bool, bool],
    state: BanditPerceptronsKernelState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    s, gram = np.empty(state.coefficients.shape[1]), np.empty(_used(state))
    for i in range(len(distributions)):
        indices, values = row(contexts, i)
        s[:] = 0.0
        _kernel_score(parameters[1], state, indices, values, gram, s)
        evidence[i, 0] = claim(eligible, i, s, distributions[i])


@compiled
def _kernel_score(
    rational: bool,
    state: BanditPerceptronsKernelState,
    indices: IntArray,
    values: FloatArray,
    gram: FloatArray,
    result: FloatArray,
) -> None:
    """Add each label's score to result (K,); gram, with one entry per used support vector, is scratch space."""
    gram[:] = 0.0
    for position in range(len(values)):
        support = state.support[indices[position]]
        for j in range(len(gram)):
            gram[j] += values[position] * support[j]
    for j in range(len(gram)):
        g = rational_kernel(gram[j]) if rational else gram[j]
        for k in range(len(result)):
            result[k] += g * state.coefficients[j, k]


@compiled
def rational_kernel(product: float) -> float:
    """Return the kernel 1 / (1 - ⟨x, x'⟩/2), from 2/3 to 2, given ⟨x, x'⟩, which is first clipped to [-1, 1]."""
    return 1.0 / (1.0 - 0.5 * min(1.0, max(-1.0, product)))


@compiled
def _kernel_fold(parameters: tuple[bool, bool], state: BanditPerceptronsKernelState, rounds: Rounds) -> None:
    known, rational = parameters
    K = state.coefficients.shape[1]
    s, coefficients, gram = np.empty(K), np.empty(K), np.empty(len(state.coefficients))
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        s[:] = 0.0
        _kernel_score(rational, state, indices, values, gram[: _used(state)], s)
        updates = corrections(known, s, rounds, t, coefficients)
        if updates > 0:
            _correct(state, indices, values, coefficients, updates)
        state.rounds[()] += 1


@compiled
def _correct(
    state: BanditPerceptronsKernelState, indices: IntArray, values: FloatArray, coefficients: FloatArray, updates: int
) -> None:
    place = _place(state, indices, values)
    if place == len(state.coefficients):
        state.refused[()] += 1
        return
    if place == _used(state):
        for position in range(len(values)):
            state.support[indices[position], place] = values[position]
        state.used[()] = place + 1
    state.coefficients[place] += coefficients
    state.updates[()] += updates


@compiled
def _place(state: BanditPerceptronsKernelState, indices: IntArray, values: FloatArray) -> int:
    """Return the position of the context in the support, or the number of support vectors if it is new."""
    nonzeros = np.count_nonzero(values)
    for j in range(_used(state)):
        same = True
        for position in range(len(values)):
            if state.support[indices[position], j] != values[position]:
                same = False
                break
        if same and np.count_nonzero(state.support[:, j]) == nonzeros:
            return j
    return _used(state)
