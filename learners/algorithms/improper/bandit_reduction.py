"""The bandit reduction: full information from correct explored rounds, for a base learner chosen by name.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression", ALT 2022,
Algorithm 2 and Theorem 4.1, with the factor 2 that is missing in print from its bound 2 √(K T R(T)).

With probability γ a round explores: its label is uniform. If that label is right, it is the true label, and the base
learns from it without an importance weight; other rounds do not update. The label y is drawn first, from
p = (1 - γ) σ + γ/K. Given y, the round explored with probability (γ/K) / p_y: its coin is the residual uniform of the
draw, which is uniform given y.

From a bound on the base's logistic loss, the proof uses only its consequence for the expected mistakes: on the correct
explored rounds S, Σ_S (1 - σ_y) <= Σ_S loss(U) + R. Each round is in S with probability γ/K, given the past, so over
all rounds Σ (1 - σ_y) <= Σ loss(U) + K R/γ in expectation; exploration adds at most γT. Therefore, a base with a direct
bound on its expected mistakes has the same guarantee, with its theorem's loss.
"""

import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung, theorem_step
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.improper.folklore import Folklore
from learners.base import AnyLearner, BoolArray, Contexts, Decisions, FloatArray, Problem, Rounds, State, every_label
from learners.hyperparameters import Exploration, Magnitude, Positive, hyperparameters
from learners.layouts import Count, Layout, state_layout, zero_state
from learners.learner import CheckedLearner, DelayedUpdate
from learners.mathematics.exploration import settle_each
from learners.mathematics.gaptron_schedules import safe_step
from learners.mathematics.guarantees import AT_ONCE, ROUNDING, uncovered


class ExploredRounds(CheckedLearner[Any]):
    """Algorithm 2 over a base learner with full information, whose evidence does not depend on the drawn label."""

    exploration: Exploration

    @property
    @abstractmethod
    def base_learner(self) -> AnyLearner:
        """The learner that learns from the correct explored rounds."""

    @abstractmethod
    def base_regret(self, rounds: int) -> float:
        """Return R(T), the base's bound after T rounds."""

    @abstractmethod
    def base_state(self, state: State) -> State:
        """Return the state of the base, as views of this state; `updates` is its count of rounds."""

    @property
    def evidence_size(self) -> int:
        return self.base_learner.evidence_size + 1

    def decide_cost(self, nonzeros: int) -> int:
        return self.base_learner.decide_cost(nonzeros)

    def fold_cost(self, nonzeros: int) -> int:
        return self.base_learner.fold_cost(nonzeros)

    @property
    def fold_overhead(self) -> int:
        return self.base_learner.fold_overhead

    def init(self) -> State:
        state = zero_state(self)
        for part, first in zip(self.base_state(state), self.base_learner.init(), strict=True):
            part[...] = first
        return state

    def decide_unchecked(self, state: State, contexts: Contexts, eligible: BoolArray | None = None) -> Decisions:
        rate = self.exploration_rate(state.rounds.item())
        sigma, evidence = self.base_learner.decide_unchecked(self.base_state(state), contexts, eligible)
        among = every_label(contexts.n) if eligible is None else eligible
        shares = rate / counts_of(among, self.problem.n_labels)[:, None]
        mixed = (1.0 - rate) * sigma + (np.where(among, shares, 0.0) if among.shape[1] else shares)
        settle_each(mixed)
        return Decisions(mixed, np.concatenate([evidence, np.full((contexts.n, 1), rate)], axis=1))

    def fold_unchecked(self, state: State, rounds: Rounds) -> State:
        lucky = rounds.correct & explored(rounds, self.problem.n_labels)
        self.base_learner.fold_unchecked(self.base_state(state), self._as_full_information(rounds, lucky))
        state.rounds[()] += rounds.n
        return state

    def exploration_rate(self, rounds: int) -> float:
        """Return γ after `rounds` rounds: the fixed one, or min(1, √(K R(t)/t)) for t = rounds + 1."""
        if not isinstance(self.exploration, str):
            return float(self.exploration)
        t = rounds + 1
        return min(1.0, math.sqrt(self.problem.n_labels * self.base_regret(t) / t))

    def _as_full_information(self, rounds: Rounds, which: BoolArray) -> Rounds:
        chosen = select(rounds, which)
        evidence = np.ascontiguousarray(chosen.evidence[:, : self.base_learner.evidence_size])
        return chosen._replace(true_labels=chosen.labels, evidence=evidence)


def explored(rounds: Rounds, n_labels: int) -> BoolArray:
    """Check whether each round's residual uniform is below (γ/K') / propensity, with γ its last evidence, (n,)."""
    shares = rounds.evidence[:, -1] / counts_of(rounds.eligible, n_labels)
    coins: BoolArray = rounds.residual_uniforms * rounds.propensities < shares
    return coins


def counts_of(eligible: BoolArray, n_labels: int) -> FloatArray:
    """Return K' of each row of `eligible`, (n,): the number of eligible labels of the round."""
    counts = eligible.sum(axis=1) if eligible.shape[1] else np.full(len(eligible), n_labels)
    return np.asarray(counts, np.float64)


def select(rounds: Rounds, which: BoolArray) -> Rounds:
    """Return the rounds for which `which` (n,) is true, in order."""
    starts, indices, values, shared = rounds.contexts
    lengths = np.diff(starts)
    entries = np.repeat(which, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[which])]).astype(np.int64)
    contexts = Contexts(starts, indices if shared else indices[entries], values[entries], shared)
    columns: list[Any] = [column[which] for column in rounds[1:]]
    return Rounds(contexts, *columns)


class Proof(NamedTuple):
    """A theorem about the expected mistakes of a base."""

    loss: str  # the loss of the comparators
    regret: str  # R(T)
    source: str


class Base(Protocol):
    """A learner with full information whose distribution is a probability for each label.

    Its evidence does not depend on the drawn label. It folds in place. Its state has `rounds` as its last field, and
    before it arrays of float64.
    """

    def build(self, settings: "BanditReduction", /) -> AnyLearner:
        """Return the learner. Raises `ValueError` if it refuses the settings."""

    def regret_bound(self, settings: "BanditReduction", rounds: int, /) -> float:
        """Return R(T) against comparators of norm B, as if the theorem covered the step."""

    def proof(self, settings: "BanditReduction", /) -> Proof | None:
        """Return the theorem for these settings; None if it does not cover the step."""


class FolkloreBase(Base):
    """FOLKLORE, whose theorem bounds the logistic loss. It has no step."""

    def build(self, settings: "BanditReduction") -> Folklore:
        if settings.learning_rate != "theorem":
            raise ValueError("the base folklore takes no learning_rate")
        return Folklore(
            problem=settings.problem, comparator_bound=settings.comparator_bound, delayed_update=settings.delayed_update
        )

    def regret_bound(self, settings: "BanditReduction", rounds: int) -> float:
        return self.build(settings).regret_bound(rounds)

    def proof(self, _: "BanditReduction") -> Proof:
        return Proof(
            "the logistic loss, in nats, of any W with rows of norm at most B",
            "2KBX + (2BX + ln K + 2)/4 · K d ln(1 + T)",
            "Theorem 4.1",
        )


class GradientBase(Base):
    """A base that takes gradient steps. For steps up to its theorem's, it bounds the expected mistakes by B²/(2η)."""

    def __init__(
        self, learner: Callable[..., AnyLearner], fixed: dict[str, Any], step: Callable[[Problem], float], source: str
    ) -> None:
        self._learner, self._fixed, self._theorem_step, self._source = learner, fixed, step, source

    def build(self, settings: "BanditReduction") -> AnyLearner:
        chosen = {"learning_rate": settings.learning_rate, "delayed_update": settings.delayed_update}
        return self._learner(problem=settings.problem, **chosen, **self._fixed)

    def regret_bound(self, settings: "BanditReduction", _: int) -> float:
        return settings.comparator_bound**2 / (2.0 * self._step(settings))

    def proof(self, settings: "BanditReduction") -> Proof | None:
        step = self._step(settings)
        if step > self._theorem_step(settings.problem) * ROUNDING:
            return None
        return Proof(
            "the base-2 logistic loss of any U",
            f"‖U‖²/(2η) for the base's step η = {step:.4g}",
            f"the proof of Theorem 4.1, with the bound on the base's expected mistakes in {self._source}; no bound on "
            "the base's own logistic loss is needed",
        )

    def _step(self, settings: "BanditReduction") -> float:
        given = settings.learning_rate
        return self._theorem_step(settings.problem) if isinstance(given, str) else given


BaseName: TypeAlias = Literal["folklore", "fenchel-young", "gaptron"]

BASES: dict[BaseName, Base] = {
    "folklore": FolkloreBase(),
    "fenchel-young": GradientBase(FenchelYoung, {}, theorem_step, "Sakaue, Bao, Tsuchiya and Oki 2024, Theorem 5.1"),
    "gaptron": GradientBase(
        Gaptron,
        {"information": "full", "loss": "logistic"},
        lambda problem: safe_step("logistic", problem),
        "van der Hoeven 2020, Theorem 1",
    ),
}
"""The bases by name. A new one needs an entry here and in `BaseName`."""


class BanditReductionState(NamedTuple):
    """The base's state, and a count of all rounds, few of which are updates."""

    numbers: Annotated[FloatArray, Layout("float64", ("base_numbers",))]  # the base's arrays, one after the other
    updates: Count  # rounds that the base has learned from
    rounds: Count  # rounds folded so far


@hyperparameters
class BanditReduction(ExploredRounds):
    """The bandit reduction over a base of your choice: about γT/K of the rounds are updates, each with weight 1.

    With probability γ a round explores; otherwise the answer is drawn from the base's distribution. The base learns
    from explored rounds whose answer was right. The coin always uses the γ and propensity of the prediction.
    """

    algorithm = "bandit-reduction"
    smaller = "gaptron"
    state_type = BanditReductionState

    base: BaseName = "fenchel-young"
    """The learner of explored rounds: `folklore`, `fenchel-young`, or `gaptron` with the logistic loss."""
    exploration: Exploration = 0.1
    """γ; √(K R(T)/T) in the theorem, or `anytime` for γ_t = min(1, √(K R(t)/t)), with R at the comparator_bound."""
    comparator_bound: Magnitude = 10.0
    """B: with the base `folklore`, the comparator's weights of each label have norm at most B. The other bases use it
    only for `anytime`, as the Frobenius norm of the comparator.
    """
    learning_rate: Literal["theorem"] | Positive = "theorem"
    """The base's step: that of its theorem, or a fixed η. The base `folklore` has no step."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        _ = self.base_learner

    @property
    def guarantee(self) -> str:
        if isinstance(self.exploration, str):
            return uncovered("the theorem's γ is fixed, but this γ falls", "a fixed exploration")
        proof = BASES[self.base].proof(self)
        if proof is None:
            return uncovered("the step is larger than that of the base's theorem", "learning_rate theorem")
        return (
            f"Expected mistakes exceed {proof.loss} by at most K R(T)/γ + γT after T rounds fixed in advance, where "
            f"γ = {self.exploration:g} and R(T) = {proof.regret}; with the best γ, by at most 2 √(K T R(T)) (Agarwal, "
            f"Kale and Zimmert 2022, {proof.source}). {AT_ONCE}"
        )

    @property
    def base_learner(self) -> AnyLearner:
        return _base(self).learner

    @property
    def base_numbers(self) -> int:
        """The number of entries of the base's arrays, without its count of rounds."""
        return sum(math.prod(shape) for shape in _base(self).shapes)

    def base_regret(self, rounds: int) -> float:
        return BASES[self.base].regret_bound(self, rounds)

    def base_state(self, state: BanditReductionState) -> State:
        learner, shapes = _base(self)
        parts, start = [], 0
        for shape in shapes:
            stop = start + math.prod(shape)
            parts.append(state.numbers[start:stop].reshape(shape))
            start = stop
        return learner.state_type(*parts, state.updates)


class _Base(NamedTuple):
    learner: AnyLearner
    shapes: list[tuple[int, ...]]  # of its arrays, without its count of rounds


@functools.lru_cache(maxsize=256)
def _base(settings: BanditReduction) -> _Base:
    # Cached: building and validating a learner takes longer than one of its updates.
    learner = BASES[settings.base].build(settings)
    return _Base(learner, [layout.shape for layout in state_layout(learner).values()][:-1])
