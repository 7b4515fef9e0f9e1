"""The base learners of `bandit-reduction`, and what their theorems prove.

Theorem 4.1 of Agarwal, Kale and Zimmert 2022 takes a bound on the base's logistic loss. Its proof uses only what that
implies for the base's expected mistakes: on the explored rounds S whose answer was right,
Σ_S (1 - σ_y) <= Σ_S loss(U) + R. Each round is in S with probability γ/K, given the past, so over all rounds
Σ (1 - σ_y) <= Σ loss(U) + K R/γ in expectation. Exploration adds at most γT. A base that bounds its expected mistakes
directly therefore has the same guarantee, with the loss of that theorem.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung, theorem_step
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.improper.folklore import Folklore
from learners.base import AnyLearner, Problem
from learners.mathematics.delayed import DelayedUpdate
from learners.mathematics.gaptron_schedules import safe_step
from learners.mathematics.guarantees import ROUNDING


class Settings(Protocol):
    """The settings of the reduction that concern its base."""

    @property
    def problem(self) -> Problem:
        """The dimensions."""

    @property
    def comparator_bound(self) -> float:
        """B."""

    @property
    def learning_rate(self) -> Literal["theorem"] | float:
        """The step."""

    @property
    def delayed_update(self) -> DelayedUpdate:
        """What a late update uses."""


class Proof(NamedTuple):
    """What is proved about the expected mistakes of a base."""

    loss: str  # the loss of the comparators
    regret: str  # R(T)
    source: str


class Base(Protocol):
    """A learner with full information whose distribution is a probability for each label.

    Its evidence does not depend on the drawn label. It folds in place. Its state has `rounds` as its last field, and
    before it arrays of float64.
    """

    def build(self, settings: Settings) -> AnyLearner:
        """Return the learner.

        Raises:
            ValueError: if it refuses the settings.
        """

    def regret_bound(self, settings: Settings, rounds: int) -> float:
        """Return R(T) against comparators of norm B, as if the step were proved."""

    def proof(self, settings: Settings) -> Proof | None:
        """Return what is proved at these settings, or None if its theorem does not cover the step."""


class FolkloreBase:
    """FOLKLORE, whose theorem bounds the logistic loss."""

    def build(self, settings: Settings) -> Folklore:
        """Return FOLKLORE with this B; it has no step."""
        if settings.learning_rate != "theorem":
            raise ValueError("the base folklore takes no learning_rate")
        return Folklore(
            problem=settings.problem,
            comparator_bound=settings.comparator_bound,
            delayed_update=settings.delayed_update,
        )

    def regret_bound(self, settings: Settings, rounds: int) -> float:
        """Return the R(T) of Theorem 3.3."""
        return self.build(settings).regret_bound(rounds)

    def proof(self, settings: Settings) -> Proof:
        """Return Theorem 4.1."""
        return Proof(
            "the logistic loss, in nats, of any W with rows of norm at most B",
            "2KBX + (2BX + ln K + 2)/4 · K d ln(1 + T)",
            "Theorem 4.1",
        )


class GradientBase:
    """A base that takes gradient steps, and whose theorem bounds its expected mistakes."""

    def __init__(
        self, learner: Callable[..., AnyLearner], fixed: dict[str, Any], step: Callable[[Problem], float], source: str
    ) -> None:
        self._learner = learner
        self._fixed = fixed
        self._theorem_step = step
        self._source = source

    def build(self, settings: Settings) -> AnyLearner:
        """Return the learner with this step."""
        return self._learner(
            problem=settings.problem,
            learning_rate=settings.learning_rate,
            delayed_update=settings.delayed_update,
            **self._fixed,
        )

    def regret_bound(self, settings: Settings, rounds: int) -> float:
        """Return B²/(2η)."""
        return settings.comparator_bound**2 / (2.0 * self._step(settings))

    def proof(self, settings: Settings) -> Proof | None:
        """Return the theorem for steps up to its own."""
        step = self._step(settings)
        if step > self._theorem_step(settings.problem) * ROUNDING:
            return None
        return Proof(
            "the base-2 logistic loss of any U",
            f"‖U‖²/(2η) for the base's step η = {step:.4g}",
            f"the proof of Theorem 4.1, with the bound on the base's expected mistakes in {self._source}; no bound on "
            "the base's own logistic loss is needed",
        )

    def _step(self, settings: Settings) -> float:
        given = settings.learning_rate
        return self._theorem_step(settings.problem) if isinstance(given, str) else given


BaseName: TypeAlias = Literal["folklore", "fenchel-young", "gaptron"]
"""The names of the bases."""

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
"""The bases by name. A new one is an entry here and in `BaseName`."""
