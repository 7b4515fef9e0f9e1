"""What a learner says is proved of it: a theorem only where its conditions hold, and bounds that a run confirms."""

import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungLabelSet
from learners.algorithms.fenchel_young.fenchel_young_ordinal import FenchelYoungLevel
from learners.algorithms.fenchel_young.fenchel_young_ranking import FenchelYoungRanking
from learners.algorithms.first_order.bandit_perceptrons import BanditPerceptrons, BanditPerceptronsKernel
from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.first_order.perceptron import Perceptron
from learners.algorithms.first_order.squarecb import SquareCb
from learners.algorithms.first_order.uniform import Uniform
from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.adahedge import AdaHedge
from learners.algorithms.improper.folklore import Folklore
from learners.algorithms.improper.folklore_bandit import FolkloreBandit
from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidge
from learners.algorithms.second_order.newtron import Newtron
from learners.algorithms.second_order.pnewtron import PNewtron
from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.algorithms.second_order.soba_low_rank import SobaLowRank
from learners.algorithms.second_order.soba_newton import SobaNewton
from learners.base import AnyLearner, FloatArray, Problem
from learners.mathematics.gaptron_schedules import safe_step
from learners.registry import ALL_LEARNERS
from tests.learners.formulas import LOSSES, losses_of, projected
from tests.learners.implementations import IMPLEMENTATIONS
from tests.learners.worlds import World, expected_mistakes, make_world, two_clusters

PROBLEM = Problem(3, 4, 2.0)
NOTHING = "No theorem covers these settings: "


class Row(NamedTuple):
    """Hyperparameters, and what is cited of them: nothing, where nothing is proved."""

    learner: type[Any]
    hyperparameters: dict[str, Any]
    theorem: str | None


BALL = {"radius": 1.5}
STEP = {"learning_rate": "theorem"}
SAFE = {loss: safe_step(loss, PROBLEM) for loss in LOSSES}
GAPTRON = [
    *(Row(Gaptron, {"loss": loss}, None) for loss in LOSSES),
    *(Row(Gaptron, {"loss": loss, "information": "full"}, None) for loss in LOSSES),
    *(Row(Gaptron, {"loss": loss, "information": "full", "radius": 2.0}, None) for loss in LOSSES),
]
for number, loss in enumerate(LOSSES, start=1):
    full = {"loss": loss, "information": "full"}
    bandit = {"loss": loss, **BALL, **STEP}
    FULL_THEOREM, BANDIT_THEOREM = f"Theorem {number}", f"Theorem {number + 3}"
    GAPTRON += [
        Row(Gaptron, full | STEP, FULL_THEOREM),
        Row(Gaptron, full | STEP | BALL, FULL_THEOREM),
        Row(Gaptron, full | STEP | {"delayed_update": "recompute"}, FULL_THEOREM),
        Row(Gaptron, full | STEP | {"eta_scale": 0.1}, FULL_THEOREM),
        Row(Gaptron, full | STEP | {"eta_scale": 1.01}, None),
        Row(Gaptron, full | {"learning_rate": SAFE[loss]}, FULL_THEOREM),
        Row(Gaptron, full | {"learning_rate": 0.5 * SAFE[loss]}, FULL_THEOREM),
        Row(Gaptron, full | {"learning_rate": 1.01 * SAFE[loss]}, None),
        Row(Gaptron, bandit, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": "theorem"}, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": "theorem", "least_exploration": 0.1}, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": "theorem", "horizon": 1000}, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": "theorem", "horizon": 1000, "eta_scale": 2.0}, None),
        Row(Gaptron, bandit | {"exploration": 0.3}, BANDIT_THEOREM),
        Row(Gaptron, bandit | {"exploration": 0.3, "eta_scale": 30.0}, None),
        Row(Gaptron, bandit | {"eta_scale": 1.01}, None),
        Row(Gaptron, {"loss": loss, "exploration": "theorem", **BALL}, None),
        Row(Gaptron, {"loss": loss, "exploration": 0.3, **BALL}, None),
        Row(Gaptron, {"loss": loss, "exploration": 0.3, "learning_rate": 0.09 * SAFE[loss], **BALL}, BANDIT_THEOREM),
        Row(Gaptron, {"loss": loss, "exploration": 0.3, "learning_rate": 0.11 * SAFE[loss], **BALL}, None),
        Row(Gaptron, {"loss": loss, "exploration": 0.3, "learning_rate": 0.09 * SAFE[loss]}, None),
    ]

STRUCTURED = [
    row
    for cls, more in (
        (FenchelYoungLevel, {}),
        (FenchelYoungLabelSet, {}),
        (FenchelYoungRanking, {}),
        (FenchelYoungRanking, {"polytope": "birkhoff"}),
    )
    for row in (
        Row(cls, more, "Theorem 4.2"),
        Row(cls, more | {"radius": 1.0}, "Theorem 4.2"),
        Row(cls, more | {"learning_rate": "high-probability"}, "Theorem 4.3"),
        Row(cls, more | {"learning_rate": "adaptive", "radius": 1.0}, "Appendix E.1"),
        Row(cls, more | {"learning_rate": "parameter-free"}, "Appendix E.2"),
        Row(cls, more | {"learning_rate": 1e-3}, "Theorem 4.2"),
        Row(cls, more | {"learning_rate": 100.0}, None),
    )
]

TABLE = [
    *GAPTRON,
    *STRUCTURED,
    *(
        row
        for cls in (Soba, SobaLowRank)
        for row in (
            Row(cls, {}, None),
            Row(cls, {"exploration": 0.05}, "Theorem 2"),
            Row(cls, {"exploration": 0.05, "regularization": 7.0}, "Theorem 2"),
            Row(cls, {"exploration": "adaptive"}, None),  # a = 1, X² = 4
            Row(cls, {"exploration": "adaptive", "regularization": 4.0}, "Theorem 5"),
        )
    ),
    Row(SobaDiagonal, {}, None),
    Row(SobaDiagonal, {"exploration": 0.1, "regularization": 4.0}, None),
    Row(SobaNewton, {}, "Algorithm 2"),
    Row(SobaNewton, {"eta": 1e-3}, "Algorithm 2"),
    Row(SobaNewton, {"beta": 0.1}, None),
    Row(SobaNewton, {"epsilon": 0.1}, None),
    Row(Newtron, {}, None),
    Row(Newtron, {"exploration": 0.1, "radius": 1.0}, None),
    Row(PNewtron, {}, None),
    Row(PNewtron, {"projection": "none"}, None),
    Row(Perceptron, {}, "Theorem 1"),
    Row(FenchelYoung, {}, "Theorem 5.1"),
    Row(FenchelYoung, {"radius": 1.0}, "Theorem 5.1"),
    Row(FenchelYoung, {"delayed_update": "recompute"}, "Theorem 5.1"),
    Row(FenchelYoung, {"learning_rate": 0.05}, "Theorem 5.1"),  # at most (1 - ln 2) ln 2 / 4 = 0.0532
    Row(FenchelYoung, {"learning_rate": 0.06}, None),
    Row(FenchelYoung, {"learning_rate": "adaptive", "radius": 1.0}, "Appendix E.1"),
    Row(FenchelYoung, {"learning_rate": "parameter-free"}, "Appendix E.2"),
    Row(Folklore, {}, "Theorem 3.3"),
    Row(Folklore, {"comparator_bound": 0.5}, "Theorem 3.3"),
    Row(FolkloreBandit, {}, "Theorem 4.1"),
    Row(FolkloreBandit, {"exploration": "anytime"}, None),
    Row(AdaBoostOlm, {}, "Appendix C"),
    Row(AdaHedge, {}, "Theorem 7"),
    Row(BanditPerceptrons, {}, "Algorithm 1"),
    Row(BanditPerceptrons, {"use_known_label": False}, "Algorithm 1"),
    Row(SquareCb, {}, "Lemma 3"),
    Row(SquareCb, {"least_exploration": 0.1}, "Lemma 3"),
    Row(EpsilonGreedyRidge, {}, None),
    Row(EpsilonGreedyRidge, {"exploration": "theorem"}, None),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.learner.algorithm}-{row.hyperparameters}")
def test_a_theorem_is_cited_where_its_conditions_hold(row: Row) -> None:
    """The text cites this theorem and no other, or says that there is none and which settings have one."""
    text = row.learner(problem=PROBLEM, **row.hyperparameters).guarantee
    found = set(re.findall(r"Theorem [\d.]*\d|Algorithm \d|Appendix [CE](?:\.\d)?|Lemma \d", text))
    assert found == ({row.theorem} if row.theorem else set()), text
    assert text.startswith(NOTHING) == (row.theorem is None)
    if row.theorem is None:
        assert "Covered: " in text


def test_every_learner_and_hyperparameter_is_in_the_table() -> None:
    """No learner is left out but those whose text has no condition."""
    unconditional = {Uniform, Banditron, BanditPerceptronsKernel}
    assert {row.learner for row in TABLE} | unconditional == set(ALL_LEARNERS.values())


@pytest.mark.parametrize("case", IMPLEMENTATIONS, ids=str)
def test_every_text_names_its_assumptions(case: Any) -> None:
    """Nothing proved, and what would be; or a bound, with what it assumes; and no number that is not one."""
    text = case.at(PROBLEM if case.learner is not BanditPerceptronsKernel else Problem(3, 4)).guarantee
    assert text.endswith(".")
    assert ("Covered: " in text) == text.startswith(NOTHING)
    assert "Covered: " in text or "before the next prediction" in text or case.learner is Uniform
    assert not re.search(r"\b(nan|inf|None)\b", text)


def test_the_tuned_bound_is_that_of_the_tuned_step() -> None:
    """The theorem's own form is stated for its own step; a smaller one has the general form."""
    tuned: dict[str, Any] = {"loss": "hinge", "exploration": "theorem", "horizon": 1000, **BALL}
    steps: list[Any] = ["theorem", 1e-4]
    one, two = (Gaptron(problem=PROBLEM, learning_rate=step, **tuned).guarantee for step in steps)
    smaller = Gaptron(problem=PROBLEM, learning_rate="theorem", eta_scale=0.5, **tuned).guarantee
    assert "max{K³X²D²/(K - 1), 2KXD √(T/2)} after T = 1,000 rounds" in one
    assert all("D²/(2η) + γT (K - 1)/K" in text for text in (two, smaller))


def test_the_kernels_bound_ends_with_its_room() -> None:
    """The text says after how many contexts nothing is proved, and which R the kernel has."""
    one, two = (
        BanditPerceptronsKernel(problem=Problem(3, 4), max_support=77, kernel=kernel).guarantee
        for kernel in ("rational", "linear")
    )
    assert "once 77 contexts (max_support) are kept and another is refused, nothing is proved" in one
    assert "R² = 2" in one
    assert "R = 1" in two


def test_low_rank_says_where_its_room_ends() -> None:
    """SOBA's theorem holds until an update finds no room."""
    text = SobaLowRank(problem=PROBLEM, exploration=0.1, max_updates=55).guarantee
    assert "first accepted round that finds no room among 55 updates" in text


# --- the bounds, as the texts state them


def comparators(world: World, problem: Problem, largest: float = np.inf) -> list[FloatArray]:
    """U (K, d) from zero to the least-squares teacher, several times as large, none longer than the largest."""
    teacher = np.linalg.lstsq(world.contexts, np.eye(problem.n_labels)[world.truth], rcond=None)[0].T
    some = [np.asarray(scale * teacher, dtype=np.float64) for scale in (0.0, 0.3, 1.0, 3.0, 10.0, 30.0)]
    return [projected(U, largest) for U in some]


def full_bounds(learner: Any, step: float) -> None:
    """Expected mistakes stay below the loss of any U plus ‖U‖²/(2η)."""
    for noise in (0.0, 0.2):
        world = make_world(3, 500, learner.problem, noise)
        mistakes = expected_mistakes(learner, world)
        for U in comparators(world, learner.problem):
            loss = losses_of(getattr(learner, "loss", "logistic"), world.contexts @ U.T, world.truth).sum()
            assert mistakes <= loss + np.sum(U**2) / (2.0 * step)


FULL = [row for row in TABLE if row.theorem in ("Theorem 1", "Theorem 2", "Theorem 3") and row.learner is Gaptron]


@pytest.mark.parametrize("row", [row for row in FULL if "radius" not in row.hyperparameters], ids=str)
def test_full_information_bounds_hold(row: Row) -> None:
    """Gaptron's Theorems 1 to 3 with each step that the text covers."""
    learner, given = row.learner(problem=PROBLEM, **row.hyperparameters), row.hyperparameters
    safe = SAFE[learner.loss]
    step = safe * learner.eta_scale if given["learning_rate"] == "theorem" else given["learning_rate"]
    full_bounds(learner, step)


@pytest.mark.parametrize("eta", [0.05, 0.01])
def test_smaller_steps_of_fenchel_young_keep_their_bound(eta: float) -> None:
    """The proof of Theorem 5.1 with a step below the theorem's."""
    full_bounds(FenchelYoung(problem=PROBLEM, learning_rate=eta), eta)


def test_the_adaptive_step_breaks_the_bound_of_theorem_2() -> None:
    """Many features that say nothing mislead it: far more mistakes than the theorem allows, so it is not cited."""
    d, n, rng = 500, 300, np.random.default_rng(0)
    truth, x = rng.integers(0, 2, n), rng.choice([-1.0, 1.0], (n, d)) / np.sqrt(2 * (d - 1))
    x[:, 0] = np.where(truth == 0, 1.0, -1.0) / np.sqrt(2)
    world, allowed = World(x, truth, rng.random(n)), 2.0  # K²X²‖U‖²/(2(K - 1)) at ‖U‖ = 1, whose hinge loss is zero
    mistakes = [
        expected_mistakes(Gaptron(problem=Problem(2, d), loss="hinge", information="full", learning_rate=rate), world)
        for rate in ("theorem", "adaptive")
    ]
    assert mistakes[0] <= allowed
    assert mistakes[1] > 1.5 * allowed


RUNS, T = 8, 1000


def mean_mistakes(learner: AnyLearner, world: World) -> float:
    """Expected mistakes over the learner's draws, with four standard errors."""
    draws = np.random.default_rng(2).random((RUNS, len(world.truth)))
    mistakes = np.array([expected_mistakes(learner, world._replace(uniforms=uniforms)) for uniforms in draws])
    return float(mistakes.mean() + 4 * mistakes.std(ddof=1) / np.sqrt(RUNS))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "choice",
    [{"exploration": 0.2}, {"exploration": 0.2, "eta_scale": 0.3}, {}, {"least_exploration": 0.3, "eta_scale": 0.5}],
    ids=str,
)
def test_bandit_bounds_hold(loss: Any, choice: dict[str, Any]) -> None:
    """D²/(2η) + γT(K - 1)/K for a fixed γ of Gaptron, D²/(2κγ_T) + ((K - 1)/K) Σ γ_t for a falling one."""
    problem, D = Problem(2, 2), 1.0
    learner: Gaptron = Gaptron(problem=problem, loss=loss, learning_rate="theorem", radius=D, **choice)
    gammas = np.full(T, choice.get("exploration", 0.0))
    if not gammas.any():
        gammas = np.minimum(1.0, np.maximum(np.sqrt(2 / np.arange(1, T + 1)), choice.get("least_exploration", 0.0)))
    kappa = safe_step(loss, problem, 1.0) * learner.eta_scale
    bound = D**2 / (2 * kappa * gammas[-1]) + gammas.sum() / 2
    world = two_clusters(1, T, noise=0.05)
    worst = mean_mistakes(learner, world)
    for U in comparators(world, problem, D):
        assert worst <= losses_of(loss, world.contexts @ U.T, world.truth).sum() + bound


@pytest.mark.parametrize(
    "choice", [{"exploration": 0.1}, {}, {"exploration": "theorem", "theorem_constant": 8.0}], ids=str
)
@pytest.mark.parametrize("X", [1.0, 3.0])
def test_banditrons_bound_holds(choice: dict[str, Any], X: float) -> None:
    """L + Σ γ_t + 3 max(K C/γ_T, √(C Σ γ_t)) + √(K C L/γ_T), for a fixed γ and for those that fall."""
    learner, rounds = Banditron(problem=Problem(2, 2, X), **choice), np.arange(1, T + 1)
    world = two_clusters(1, T, noise=0.02)
    world = world._replace(contexts=X * world.contexts)
    falling = {"anytime": np.sqrt(2 / rounds), "theorem": (8.0 / rounds) ** (1 / 3)}
    gammas = np.minimum(1.0, falling.get(choice.get("exploration", "anytime"), np.full(T, 0.1)))
    worst, bounds = mean_mistakes(learner, world), []
    for U in comparators(world, learner.problem):
        L, C = losses_of("hinge", world.contexts @ U.T, world.truth).sum(), 2 * (X * np.linalg.norm(U)) ** 2
        paid = 3 * max(2 * C / gammas[-1], np.sqrt(C * gammas.sum()))
        bounds.append(L + gammas.sum() + paid + np.sqrt(2 * C * L / gammas[-1]))
    assert worst <= min(bounds)


@pytest.mark.parametrize("gamma", [0.3, 0.8])
def test_the_reductions_bound_holds(gamma: float) -> None:
    """K R(T)/γ + γT on top of the logistic loss, for a γ that is not the best."""
    problem = Problem(2, 2)
    learner = FolkloreBandit(problem=problem, exploration=gamma, comparator_bound=1.0)
    world = two_clusters(1, T, noise=0.02)
    worst = mean_mistakes(learner, world)
    loss = min(
        losses_of("logistic", world.contexts @ U.T, world.truth).sum() * np.log(2.0)
        for U in comparators(world, problem)
        if np.linalg.norm(U, axis=1).max() <= 1.0
    )
    assert worst <= loss + 2 * learner.base.regret_bound(T) / gamma + gamma * T
