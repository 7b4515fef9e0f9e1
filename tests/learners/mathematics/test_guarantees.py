"""Guarantees: a theorem is cited where its conditions hold and nowhere else; the stated bounds hold on runs."""

import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.gaptron import Gaptron
from learners.base import AnyLearner, FloatArray, Problem
from learners.mathematics.gaptron_schedules import safe_step
from learners.mathematics.guarantees import counted
from learners.registry import ALL_LEARNERS as L
from tests.learners.formulas import LOSSES, losses_of, projected
from tests.learners.implementations import IMPLEMENTATIONS
from tests.learners.worlds import World, expected_mistakes, largest_mean, make_world, two_clusters

PROBLEM = Problem(3, 4, 2.0)


class Row(NamedTuple):
    learner: type[Any]
    hyperparameters: dict[str, Any]
    theorem: str | None  # two are joined by " and "


BALL = {"radius": 1.5}
STEP = {"learning_rate": "theorem"}
SAFE = {loss: safe_step(loss, PROBLEM) for loss in LOSSES}
GAPTRON = [
    *(Row(L["gaptron"], {"loss": loss}, None) for loss in LOSSES),
    *(Row(L["gaptron"], {"loss": loss, "information": "full"}, None) for loss in LOSSES),
    *(Row(L["gaptron"], {"loss": loss, "information": "full", "radius": 2.0}, None) for loss in LOSSES),
]
for number, loss in enumerate(LOSSES, start=1):
    full = {"loss": loss, "information": "full"}
    bandit = {"loss": loss, **BALL, **STEP}
    FULL_THEOREM, BANDIT_THEOREM = f"Theorem {number}", f"Theorem {number + 3}"
    GAPTRON += [
        Row(L["gaptron"], full | STEP, FULL_THEOREM),
        Row(L["gaptron"], full | STEP | BALL, FULL_THEOREM),
        Row(L["gaptron"], full | STEP | {"delayed_update": "recompute"}, FULL_THEOREM),
        Row(L["gaptron"], full | STEP | {"eta_scale": 0.1}, FULL_THEOREM),
        Row(L["gaptron"], full | STEP | {"eta_scale": 1.01}, None),
        Row(L["gaptron"], full | {"learning_rate": SAFE[loss]}, FULL_THEOREM),
        Row(L["gaptron"], full | {"learning_rate": 0.5 * SAFE[loss]}, FULL_THEOREM),
        Row(L["gaptron"], full | {"learning_rate": 1.01 * SAFE[loss]}, None),
        Row(L["gaptron"], bandit, BANDIT_THEOREM),
        Row(L["gaptron"], bandit | {"exploration": "theorem"}, BANDIT_THEOREM),
        Row(L["gaptron"], bandit | {"exploration": "theorem", "least_exploration": 0.1}, BANDIT_THEOREM),
        Row(L["gaptron"], bandit | {"exploration": "theorem", "horizon": 1000}, BANDIT_THEOREM),
        Row(L["gaptron"], bandit | {"exploration": "theorem", "horizon": 1000, "eta_scale": 2.0}, None),
        Row(L["gaptron"], bandit | {"exploration": 0.3}, BANDIT_THEOREM),
        Row(L["gaptron"], bandit | {"exploration": 0.3, "eta_scale": 30.0}, None),
        Row(L["gaptron"], bandit | {"eta_scale": 1.01}, None),
        Row(L["gaptron"], {"loss": loss, "exploration": "theorem", **BALL}, None),
        Row(L["gaptron"], {"loss": loss, "exploration": 0.3, **BALL}, None),
        Row(
            L["gaptron"], {"loss": loss, "exploration": 0.3, "learning_rate": 0.09 * SAFE[loss], **BALL}, BANDIT_THEOREM
        ),
        Row(L["gaptron"], {"loss": loss, "exploration": 0.3, "learning_rate": 0.11 * SAFE[loss], **BALL}, None),
        Row(L["gaptron"], {"loss": loss, "exploration": 0.3, "learning_rate": 0.09 * SAFE[loss]}, None),
    ]
GAPTRON += [
    Row(L["gaptron"], {"loss": "logistic", "exploration": 0.0, **BALL, **STEP}, "Theorem 4"),
    Row(L["gaptron"], {"loss": "logistic", "exploration": 0.0, **BALL, **STEP, "eta_scale": 1.01}, None),
    Row(L["gaptron"], {"loss": "logistic", "exploration": 0.0, **BALL}, None),
    Row(L["gaptron"], {"loss": "logistic", "information": "full", "exploration": 0.0, **STEP}, "Theorem 1"),
]
STRUCTURED = [
    row
    for cls, more in (
        (L["fenchel-young-ordinal"], {}),
        (L["fenchel-young-multilabel"], {}),
        (L["fenchel-young-multilabel"], {"set_size": 1}),
        (L["fenchel-young-multilabel"], {"sets": ("111", "100", "011")}),
        (L["fenchel-young-multilabel"], {"sets": ("111", "100", "011"), "loss": "crf"}),
        (L["fenchel-young-ranking"], {}),
        (L["fenchel-young-ranking"], {"polytope": "birkhoff"}),
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
        for cls in (L["soba"], L["soba-low-rank"])
        for row in (
            Row(cls, {}, None),
            Row(cls, {"exploration": 0.05}, "Theorem 2 and Theorem 4"),
            Row(cls, {"exploration": 0.05, "regularization": 7.0}, "Theorem 2 and Theorem 4"),
            Row(cls, {"exploration": "theorem", "horizon": 10**6}, "Theorem 2 and Theorem 4"),
            Row(cls, {"exploration": "adaptive"}, None),  # a = 1, X² = 4
            Row(cls, {"exploration": "adaptive", "regularization": 4.0}, "Theorem 5"),
        )
    ),
    Row(L["soba-diagonal"], {}, None),
    Row(L["soba-diagonal"], {"exploration": 0.1, "regularization": 4.0}, None),
    Row(L["soba-newton"], {}, "Algorithm 2"),
    Row(L["soba-newton"], {"eta": 1e-3}, "Algorithm 2"),
    Row(L["soba-newton"], {"beta": 0.1}, None),
    Row(L["soba-newton"], {"epsilon": 0.1}, None),
    Row(L["newtron"], {}, None),
    Row(L["newtron"], {"exploration": 0.1, "radius": 1.0}, None),
    Row(L["pnewtron"], {}, None),
    Row(L["pnewtron"], {"projection": "none"}, None),
    Row(L["perceptron"], {}, "Theorem 1"),
    Row(L["fenchel-young"], {}, "Theorem 5.1"),
    Row(L["fenchel-young"], {"radius": 1.0}, "Theorem 5.1"),
    Row(L["fenchel-young"], {"delayed_update": "recompute"}, "Theorem 5.1"),
    Row(L["fenchel-young"], {"learning_rate": 0.05}, "Theorem 5.1"),  # at most (1 - ln 2) ln 2 / 4 = 0.0532
    Row(L["fenchel-young"], {"learning_rate": 0.06}, None),
    Row(L["fenchel-young"], {"learning_rate": "high-probability"}, "Theorem 4.3"),
    Row(L["fenchel-young"], {"learning_rate": "adaptive", "radius": 1.0}, "Appendix E.1"),
    Row(L["fenchel-young"], {"learning_rate": "parameter-free"}, "Appendix E.2"),
    Row(L["folklore"], {}, "Theorem 3.3"),
    Row(L["folklore"], {"comparator_bound": 0.5}, "Theorem 3.3"),
    Row(L["folklore-bandit"], {}, "Theorem 4.1"),
    Row(L["folklore-bandit"], {"exploration": "theorem", "horizon": 10**6}, "Theorem 4.1"),
    Row(L["folklore-bandit"], {"exploration": "anytime"}, None),
    Row(L["bandit-reduction"], {}, "Theorem 4.1 and Theorem 5.1"),
    *(
        Row(L["bandit-reduction"], {"base": base, **({"base_settings": settings} if settings else {})}, theorem)
        for base, settings, theorem in (
            ("fenchel-young", {"learning_rate": 0.05}, "Theorem 4.1 and Theorem 5.1"),  # at most 0.0532, as above
            ("fenchel-young", {"learning_rate": "high-probability"}, "Theorem 4.1 and Theorem 5.1"),
            ("fenchel-young", {"learning_rate": 0.06}, None),
            ("fenchel-young", {"learning_rate": "parameter-free"}, None),
            ("folklore", {}, "Theorem 4.1"),
            ("gaptron", {}, "Theorem 4.1 and Theorem 1"),
            ("gaptron", {"loss": "hinge"}, "Theorem 4.1 and Theorem 2"),
            ("gaptron", {"learning_rate": 1.01 * SAFE["logistic"]}, None),
            ("gaptron", {"learning_rate": "adaptive"}, None),
            ("perceptron", {}, "Theorem 4.1 and Theorem 1"),
            ("fenchel-young-ordinal", {}, "Theorem 4.1 and Theorem 4.2"),
            ("fenchel-young-ordinal", {"learning_rate": 100.0}, None),
            ("adaboost-olm", {"weak_learner": "cost-regression", "weak_learners": 2}, None),
            ("adahedge", {}, None),
        )
    ),
    Row(L["bandit-reduction"], {"exploration": "anytime"}, None),
    Row(L["bandit-reduction"], {"exploration": "theorem", "horizon": 10**6}, "Theorem 4.1 and Theorem 5.1"),
    Row(L["adaboost-olm"], {}, "Appendix C"),
    Row(L["adaboost-olm"], {"weak_learner": "cost-regression"}, "Appendix C"),
    Row(L["adahedge"], {}, "Theorem 7"),
    Row(L["bandit-perceptrons"], {}, "Algorithm 1"),
    Row(L["bandit-perceptrons"], {"use_known_label": True}, "Algorithm 1"),
    Row(L["fastcb"], {}, None),
    Row(L["fastcb"], {"restart_risk": 1e-9}, None),
    Row(L["squarecb"], {}, "Lemma 3"),
    Row(L["squarecb"], {"least_exploration": 0.1}, "Lemma 3"),
    Row(L["epsilon-greedy-ridge"], {}, None),
    Row(L["epsilon-greedy-ridge"], {"exploration": "theorem"}, None),
]


NOTHING = "No theorem covers these settings: "
UNIT_BALL = {L["bandit-perceptrons-kernel"], L["bandit-perceptrons-features"]}
"""Learners that only take a norm bound of 1."""


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.learner.algorithm}-{row.hyperparameters}")
def test_theorem_is_cited_only_where_its_conditions_hold(row: Row) -> None:
    text = row.learner(problem=PROBLEM, **row.hyperparameters).guarantee
    found = set(re.findall(r"Theorem [\d.]*\d|Algorithm \d|Appendix [CE](?:\.\d)?|Lemma \d", text))
    assert found == (set(row.theorem.split(" and ")) if row.theorem else set()), text
    assert text.startswith(NOTHING) == (row.theorem is None)
    if row.theorem is None:
        assert "Covered: " in text


def test_every_learner_with_conditions_is_in_the_table() -> None:
    unconditional = {L["uniform"], L["banditron"], *UNIT_BALL}
    assert {row.learner for row in TABLE} | unconditional == set(L.values())


@pytest.mark.parametrize("case", IMPLEMENTATIONS, ids=str)
def test_every_guarantee_states_its_assumptions(case: Any) -> None:
    text = case.at(PROBLEM if case.learner not in UNIT_BALL else Problem(3, 4)).guarantee
    assert text.endswith(".")
    assert ("Covered: " in text) == text.startswith(NOTHING)
    assert "Covered: " in text or "before the next prediction" in text or case.learner is L["uniform"]
    assert not re.search(r"\b(nan|inf|None)\b", text)


def comparators(world: World, problem: Problem, largest: float = np.inf) -> list[FloatArray]:
    """Return multiples of the least-squares solution U (K, d), from zero up, projected to the largest norm."""
    teacher = np.linalg.lstsq(world.contexts, np.eye(problem.n_labels)[world.truth], rcond=None)[0].T
    some = [np.asarray(scale * teacher, dtype=np.float64) for scale in (0.0, 0.3, 1.0, 3.0, 10.0, 30.0)]
    return [projected(U, largest) for U in some]


def full_bounds(learner: Any, step: float) -> None:
    """Check that expected mistakes are at most the loss of any U plus ‖U‖²/(2η)."""
    for noise in (0.0, 0.2):
        world = make_world(3, 500, learner.problem, noise)
        mistakes = expected_mistakes(learner, world)
        for U in comparators(world, learner.problem):
            loss = losses_of(getattr(learner, "loss", "logistic"), world.contexts @ U.T, world.truth).sum()
            assert mistakes <= loss + np.sum(U**2) / (2.0 * step)


FULL = [row for row in TABLE if row.theorem in ("Theorem 1", "Theorem 2", "Theorem 3") and row.learner is Gaptron]


@pytest.mark.parametrize("row", [row for row in FULL if "radius" not in row.hyperparameters], ids=str)
def test_full_information_bounds_hold(row: Row) -> None:
    """Gaptron's Theorems 1 to 3 hold with each step that the guarantee covers."""
    learner, given = row.learner(problem=PROBLEM, **row.hyperparameters), row.hyperparameters
    safe = SAFE[learner.loss]
    step = safe * learner.eta_scale if given["learning_rate"] == "theorem" else given["learning_rate"]
    full_bounds(learner, step)


def test_adaptive_step_breaks_the_bound_of_theorem_2() -> None:
    """With many uninformative features the adaptive step exceeds Theorem 2's bound, so the guarantee omits it."""
    d, n, rng = 500, 300, np.random.default_rng(0)
    truth, x = rng.integers(0, 2, n), rng.choice([-1.0, 1.0], (n, d)) / np.sqrt(2 * (d - 1))
    x[:, 0] = np.where(truth == 0, 1.0, -1.0) / np.sqrt(2)
    world, allowed = World(x, truth, rng.random(n)), 2.0  # K²X²‖U‖²/(2(K - 1)) at ‖U‖ = 1, where the hinge loss is zero
    mistakes = [
        expected_mistakes(Gaptron(problem=Problem(2, d), loss="hinge", information="full", learning_rate=rate), world)
        for rate in ("theorem", "adaptive")
    ]
    assert mistakes[0] <= allowed
    assert mistakes[1] > 1.5 * allowed


RUNS, T = 8, 1000


def mean_mistakes(learner: AnyLearner, world: World) -> float:
    return largest_mean(expected_mistakes, learner, world, np.random.default_rng(2).random((RUNS, len(world.truth))))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "choice",
    [{"exploration": 0.2}, {"exploration": 0.2, "eta_scale": 0.3}, {}, {"least_exploration": 0.3, "eta_scale": 0.5}],
    ids=str,
)
def test_bandit_bounds_hold(loss: Any, choice: dict[str, Any]) -> None:
    """Regret is at most D²/(2η) + γT(K - 1)/K for a fixed γ, D²/(2κγ_T) + ((K - 1)/K) Σ γ_t for a falling γ."""
    problem, D = Problem(2, 2), 1.0
    learner: Gaptron = Gaptron(problem=problem, loss=loss, learning_rate="theorem", radius=D, **choice)
    gammas = np.full(T, choice.get("exploration", 0.0))
    if not gammas.any():
        gammas = np.minimum(1.0, np.maximum(np.sqrt(2 / np.arange(1, T + 1)), choice.get("least_exploration", 0.0)))
    kappa = safe_step(loss, problem, 1.0) * learner.eta_scale
    bound = D**2 / (2 * kappa * gammas[-1]) + gammas.sum() / 2
    number = learner.bound(T)
    assert number is not None
    assert bound * (1.0 - 1e-12) <= number <= 1.01 * bound
    world = two_clusters(1, T, noise=0.05)
    worst = mean_mistakes(learner, world)
    for U in comparators(world, problem, D):
        assert worst <= losses_of(loss, world.contexts @ U.T, world.truth).sum() + bound


def test_theorem_4_bound_holds_without_exploration() -> None:
    """With γ = 0, regret is at most D²/(2η) for any number of rounds, which the guarantee prints as a number."""
    learner: Gaptron = Gaptron(
        problem=Problem(2, 2), loss="logistic", learning_rate="theorem", radius=1.0, exploration=0.0
    )
    q = np.exp(-np.sqrt(2.0))
    bound = 4.0 * (1.0 + q) / (q * np.log(2.0))
    assert f" = {np.ceil(bound):.0f} after any number of rounds" in learner.guarantee
    assert learner.bound(T) == pytest.approx(bound, rel=1e-12)
    world = two_clusters(1, T, noise=0.05)
    worst = mean_mistakes(learner, world)
    for U in comparators(world, learner.problem, 1.0):
        assert worst <= losses_of("logistic", world.contexts @ U.T, world.truth).sum() + bound


@pytest.mark.parametrize(
    "choice", [{"exploration": 0.1}, {}, {"exploration": "theorem", "theorem_constant": 8.0}], ids=str
)
@pytest.mark.parametrize("X", [1.0, 3.0])
def test_banditron_bound_holds(choice: dict[str, Any], X: float) -> None:
    """Mistakes are at most L + Σ γ_t + 3 max(K C/γ_T, √(C Σ γ_t)) + √(K C L/γ_T), for fixed and falling γ."""
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


def test_a_printed_bound_is_never_below_the_bound() -> None:
    for bound in np.geomspace(1.0, 1e200, 5000).tolist():
        assert bound <= float(counted(bound).replace(",", "")) <= 1.002 * bound + 1.0
