"""The implementations that every law of `test_contract.py` is held against. A new learner is one line here."""

from typing import Any, NamedTuple

from learners.base import AnyLearner, Problem
from learners.gaptron import Gaptron
from learners.soba import Soba
from learners.soba_diagonal import SobaDiagonal
from learners.uniform import Uniform


class Case(NamedTuple):
    """A learner with hyperparameters of its own, for any problem."""

    learner: type[Any]
    hyperparameters: dict[str, Any]
    least_exploration: float = 0.0  # γ that every decision keeps to: each label has at least γ/K

    def at(self, problem: Problem) -> AnyLearner:
        """The learner bound to a problem."""
        learner: AnyLearner = self.learner(problem=problem, **self.hyperparameters)
        return learner

    def __str__(self) -> str:
        return "-".join([self.learner.algorithm, *(str(value) for value in self.hyperparameters.values())])


IMPLEMENTATIONS = [
    Case(Gaptron, {}),
    Case(Gaptron, {"loss": "hinge"}),
    Case(Gaptron, {"loss": "smooth_hinge", "least_exploration": 0.2, "delayed_update": "recompute"}, 0.2),
    Case(Gaptron, {"loss": "logistic", "exploration": 0.3, "learning_rate": 0.5, "delayed_update": "recompute"}, 0.3),
    Case(Gaptron, {"loss": "hinge", "exploration": 0.1, "eta_scale": 30.0}, 0.1),
    Case(Gaptron, {"loss": "smooth_hinge", "horizon": 100_000, "radius": 2.0}),
    Case(Gaptron, {"loss": "logistic", "information": "full"}),
    Case(Gaptron, {"loss": "hinge", "information": "full", "radius": None}),
    Case(Gaptron, {"loss": "smooth_hinge", "information": "full", "delayed_update": "recompute", "eta_scale": 10.0}),
    Case(Soba, {}, 0.05),
    Case(Soba, {"exploration": "adaptive"}),
    Case(Soba, {"exploration": 0.3, "regularization": 0.5}, 0.3),
    Case(SobaDiagonal, {}, 0.05),
    Case(SobaDiagonal, {"exploration": "adaptive"}),
    Case(SobaDiagonal, {"exploration": 0.3, "regularization": 0.5}, 0.3),
    Case(Uniform, {}, 1.0),
]
