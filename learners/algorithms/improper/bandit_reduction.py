"""The bandit reduction: a base learner, chosen by name, takes correct explored rounds as full information.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression", ALT 2022,
Algorithm 2 and Theorem 4.1, with the factor 2 that is missing in print from its bound 2 √(K T R(T)).

With probability γ a round explores: its label is uniform. If that label is right, it is the true label, and the base
learns from it without an importance weight; the base skips all other rounds. The label y is drawn first, from
p = (1 - γ) σ + γ/K, where σ is the base's distribution. Given y, the round explored with probability (γ/K) / p_y. The
residual uniform of the draw, which is uniform given y, is the coin that decides this.

From a bound on the base's logistic loss, the proof uses only its consequence for the expected mistakes: on the correct
explored rounds S, Σ_S (1 - σ_y) <= Σ_S loss(U) + R. Each round is in S with probability γ/K, given the past, so over
all rounds Σ (1 - σ_y) <= Σ loss(U) + K R/γ in expectation; exploration adds at most γT. So a base with a direct bound
on its expected mistakes has the same guarantee, with its theorem's loss.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pydantic

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.fenchel_young_ordinal import FenchelYoungOrdinal
from learners.algorithms.first_order.gaptron import LOSSES, THEOREMS, Gaptron
from learners.algorithms.first_order.perceptron import Perceptron
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.adahedge import AdaHedge
from learners.algorithms.improper.folklore import Folklore
from learners.base import (
    NO_PRICES,
    AnyLearner,
    BoolArray,
    Contexts,
    Decisions,
    FloatArray,
    Prices,
    Rounds,
    State,
    every_label,
)
from learners.hyperparameters import (
    Horizon,
    Magnitude,
    Settings,
    TheoremExploration,
    check_horizon,
    hyperparameters,
    refusal,
)
from learners.layouts import Count, Layout, state_layout, zero_state
from learners.learner import CheckedLearner
from learners.mathematics.exploration import settle_each
from learners.mathematics.guarantees import AT_ONCE, counted, uncovered


class Proof(NamedTuple):
    """What is proved about a base: its expected costs exceed the loss of a comparator by at most R(T)."""

    costs: str  # "mistakes", or another loss of at most 1 per round
    loss: str  # the loss of the comparators
    regret: str  # R(T)
    source: str


class ExploredRounds(CheckedLearner[Any]):
    """Algorithm 2 over a base learner with full information, whose evidence does not depend on the drawn label."""

    exploration: TheoremExploration
    horizon: Horizon
    comparator_bound: float

    def __post_init__(self) -> None:
        check_horizon(self.horizon, self.exploration)
        _ = self.base_learner
        if isinstance(self.exploration, str) and self.base_regret(1) is None:
            reason = f"{self.exploration} needs a base whose bound R(T) is a number; with these settings it is not"
            raise refusal("exploration", reason)

    @property
    @abstractmethod
    def base_learner(self) -> AnyLearner:
        """The learner that learns from the correct explored rounds."""

    @property
    @abstractmethod
    def proof(self) -> Proof | str:
        """What is proved about the base, or why nothing is."""

    @abstractmethod
    def base_regret(self, rounds: int) -> float | None:
        """Return R(T), the base's bound after T rounds against comparators of norm B, or None if it is not a number."""

    @abstractmethod
    def base_state(self, state: State) -> State:
        """Return the state of the base, as views of this state, whose `updates` are the rounds of the base."""

    @property
    def guarantee(self) -> str:
        proof = self.proof
        if self.exploration == "anytime":
            return uncovered("the theorem's γ is fixed, but this γ falls", "a fixed exploration, or theorem")
        if isinstance(proof, str):
            return uncovered(proof, "the default base and base_settings")
        gamma, rounds, number = self.exploration_rate(0), "T rounds", ""
        if self.horizon is not None:
            rounds, bound = f"T = {self.horizon:,} rounds", self.regret_bound(self.horizon)
            number = f" At the comparator_bound, this is at most {counted(bound)}."
        best = "" if self.base_regret(1) is None else "; with the best γ, by at most 2 √(K T R(T))"
        return (
            f"Expected {proof.costs} exceed {proof.loss} by at most K R(T)/γ + γT after {rounds} fixed in advance, "
            f"where γ = {gamma:.4g} and R(T) = {proof.regret}{best} (Agarwal, Kale and Zimmert 2022, {proof.source})."
            f"{number} {AT_ONCE}"
        )

    def regret_bound(self, rounds: int) -> float:
        """Return K R(T)/γ + γT. Raises `ValueError` if R(T) is not a number."""
        regret, gamma = self.base_regret(rounds), self.exploration_rate(0)
        if regret is None:
            raise ValueError("no theorem bounds the regret of the base by a number")
        return self.problem.n_labels * regret / gamma + gamma * rounds

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

    def decide_unchecked(
        self, state: State, contexts: Contexts, eligible: BoolArray | None = None, prices: Prices = NO_PRICES
    ) -> Decisions:
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
        """Return γ after these rounds: fixed, or min(1, √(K R(t)/t)) with t = T, or t = rounds + 1 for `anytime`."""
        return self._best_rate(rounds + 1) if self._fixed_rate is None else self._fixed_rate

    @cached_property
    def _fixed_rate(self) -> float | None:
        if isinstance(self.exploration, str):
            return None if self.horizon is None else self._best_rate(self.horizon)
        return float(self.exploration)

    def _best_rate(self, rounds: int) -> float:
        regret = self.base_regret(rounds)
        assert regret is not None
        return min(1.0, math.sqrt(self.problem.n_labels * regret / rounds))

    def _as_full_information(self, rounds: Rounds, which: BoolArray) -> Rounds:
        chosen = select(rounds, which)
        evidence = np.ascontiguousarray(chosen.evidence[:, : self.base_learner.evidence_size])
        return chosen._replace(true_labels=chosen.labels, evidence=evidence)


def explored(rounds: Rounds, n_labels: int) -> BoolArray:
    """Return whether each round explored, (n,): its residual uniform is then below (γ/K') / propensity.

    γ is the last number of the round's evidence.
    """
    shares = rounds.evidence[:, -1] / counts_of(rounds.eligible, n_labels)
    coins: BoolArray = rounds.residual_uniforms * rounds.propensities < shares
    return coins


def counts_of(eligible: BoolArray, n_labels: int) -> FloatArray:
    """Return K', the number of eligible labels, of each round, (n,)."""
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


def _no_regret(*_: object) -> None:
    """Return None, which is R(T) of a base whose bound is not a number."""


class Base(NamedTuple):
    """A learner with full information whose distribution is a probability for each label.

    Its evidence does not depend on the drawn label. It folds in place. The last field of its state is `rounds`; the
    others are arrays of float64.
    """

    learner: type[Any]
    prove: Callable[[Any], Proof | str]
    regret: Callable[[Any, float, int], float | None] = _no_regret  # R(T), from the learner, B and T
    takes_norm: bool = False  # whether the learner takes B as its comparator_bound
    fixed: Mapping[str, Any] = MappingProxyType({})  # settings that the reduction determines
    defaults: Mapping[str, Any] = MappingProxyType({})  # settings that differ from the learner's defaults

    def build(self, settings: "BanditReduction") -> AnyLearner:
        """Return the learner. Raises `pydantic.ValidationError` if it refuses the settings."""
        given = settings.base_settings or {}
        where = "base_settings" if given else "base"
        if taken := sorted(set(given) & {*self.fixed, "problem", "comparator_bound"}):
            raise refusal(where, f"the reduction sets {taken[0]}; leave it out")
        bound = {"comparator_bound": settings.comparator_bound} if self.takes_norm else {}
        try:
            chosen = {**self.defaults, **given, **self.fixed, **bound}
            learner: AnyLearner = self.learner(problem=settings.problem, **chosen)
        except pydantic.ValidationError as error:
            reasons = [": ".join([*map(str, one["loc"][:1]), one["msg"]]) for one in error.errors()]
            raise refusal(where, f"{settings.base}: {'; '.join(reasons)}") from error
        return learner


def folklore_proof(_: object = None) -> Proof:
    """Return what Theorem 3.3 proves about FOLKLORE."""
    return Proof(
        "mistakes",
        "the logistic loss, in nats, of any W with rows of norm at most B",
        "2KBX + (2BX + ln K + 2)/4 · K d ln(1 + T)",
        "Theorem 4.1",
    )


def _folklore_regret(base: Folklore, _: float, rounds: int) -> float:
    return base.regret_bound(rounds)


def _stepping(base: Any, costs: str, loss: str, source: str) -> Proof | str:
    """Return the proof of a base whose costs exceed a loss by at most ‖U‖²/(2η) for its step η, or why it has none."""
    step = base.proved_step
    if step is None:
        return "the step is not a fixed one that the base's theorem covers"
    return Proof(
        costs,
        loss,
        f"‖U‖²/(2η) for the base's step η = {step:.4g}",
        f"the proof of Theorem 4.1, with the bound on the base's expected {costs} in {source}; no bound on the base's "
        "own loss is needed",
    )


def _stepping_regret(base: Any, norm: float, _: int) -> float | None:
    step = base.proved_step
    return None if step is None else norm**2 / (2.0 * step)


def _fenchel_young_proof(base: FenchelYoung) -> Proof | str:
    source = "Sakaue, Bao, Tsuchiya and Oki 2024, Theorem 5.1"
    return _stepping(base, "mistakes", "the base-2 logistic loss of any U", source)


def _gaptron_proof(base: Gaptron) -> Proof | str:
    source = f"van der Hoeven 2020, Theorem {THEOREMS[base.loss]}"
    return _stepping(base, "mistakes", f"the {LOSSES[base.loss]} loss of any U", source)


def _ordinal_proof(base: FenchelYoungOrdinal) -> Proof | str:
    source = "Sakaue, Bao, Tsuchiya and Oki 2024, Theorem 4.2"
    costs = "differences of levels, divided by K - 1,"
    return _stepping(base, costs, "the Fenchel-Young loss of any U", source)


def _perceptron_proof(_: object) -> Proof:
    return Proof(
        "mistakes",
        "the hinge loss L of any U",
        "2X²‖U‖² + X‖U‖ √(2γL/K)",
        "the proof of Theorem 4.1, with the bound on the base's mistakes in Beygelzimer, Orabona and Zhang 2017, "
        "Theorem 1, and the concavity of the root",
    )


def _boosting_proof(_: object) -> str:
    return "the base's theorem compares its mistakes with its weak learners', not with a comparator's loss"


def _hedge_proof(_: object) -> str:
    return "the base's theorem bounds the cost of abstaining, not the mistakes"


BaseName: TypeAlias = Literal[
    "folklore",
    "fenchel-young",
    "gaptron",
    "perceptron",
    "fenchel-young-ordinal",
    "adaboost-olm",
    "adahedge",
]

BASES: dict[BaseName, Base] = {
    "folklore": Base(Folklore, folklore_proof, _folklore_regret, takes_norm=True),
    "fenchel-young": Base(FenchelYoung, _fenchel_young_proof, _stepping_regret),
    "gaptron": Base(
        Gaptron,
        _gaptron_proof,
        _stepping_regret,
        fixed={"information": "full"},
        defaults={"loss": "logistic", "learning_rate": "theorem"},
    ),
    "perceptron": Base(Perceptron, _perceptron_proof),
    "fenchel-young-ordinal": Base(FenchelYoungOrdinal, _ordinal_proof, _stepping_regret),
    "adaboost-olm": Base(AdaBoostOlm, _boosting_proof),
    "adahedge": Base(AdaHedge, _hedge_proof),
}
"""The bases by name: every registered learner that needs true labels and answers with one label. A new base is an
entry here and in `BaseName`."""


class BanditReductionState(NamedTuple):
    """The base's state, and a count of all rounds, few of which are updates."""

    numbers: Annotated[FloatArray, Layout("float64", ("base_numbers",))]  # the base's arrays, concatenated
    updates: Count  # rounds that the base has learned from
    rounds: Count  # rounds folded so far


@hyperparameters
class BanditReduction(ExploredRounds):
    """The bandit reduction over a base of your choice: about γT/K of the rounds are updates, each with weight 1.

    With probability γ a round explores; otherwise the answer is drawn from the base's distribution. The base learns
    from explored rounds whose answer was right. Late feedback uses the γ and propensity stored with the prediction.
    """

    algorithm = "bandit-reduction"
    smaller = "gaptron"
    state_type = BanditReductionState

    base: BaseName = "fenchel-young"
    """The learner of the explored rounds: any that learns from true labels and answers with one label."""
    base_settings: Settings | None = None
    """Hyperparameters of the base, by name, such as `{"weak_learners": 32}` for `adaboost-olm`. `null`: its defaults,
    but the logistic loss and the theorem's step for `gaptron`.
    """
    exploration: TheoremExploration = 0.1
    """γ: a number; or `theorem`, for min(1, √(K R(T)/T)) with the horizon T; or `anytime`, for
    γ_t = min(1, √(K R(t)/t)). R is the base's regret bound at the comparator_bound.
    """
    horizon: Horizon = None
    """The number of rounds T, for exploration `theorem`."""
    comparator_bound: Magnitude = 10.0
    """B: with the base `folklore`, the comparator's weights of each label have norm at most B. The other bases use it
    only for R, as the Frobenius norm of the comparator.
    """

    @property
    def proof(self) -> Proof | str:
        return BASES[self.base].prove(self.base_learner)

    def base_regret(self, rounds: int) -> float | None:
        return BASES[self.base].regret(self.base_learner, self.comparator_bound, rounds)

    @cached_property
    def base_learner(self) -> AnyLearner:
        return BASES[self.base].build(self)

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [layout.shape for layout in state_layout(self.base_learner).values()][:-1]

    @property
    def base_numbers(self) -> int:
        """The number of entries of the base's arrays, without its count of rounds."""
        return sum(map(math.prod, self._shapes))

    def base_state(self, state: BanditReductionState) -> State:
        parts, start = [], 0
        for shape in self._shapes:
            stop = start + math.prod(shape)
            parts.append(state.numbers[start:stop].reshape(shape))
            start = stop
        return self.base_learner.state_type(*parts, state.updates)
