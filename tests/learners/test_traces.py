"""Learners reproduce numbers computed by slow, independent code from the papers (`tests/data`)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.first_order.perceptron import Perceptron
from learners.algorithms.second_order.newtron import Newtron
from learners.algorithms.second_order.pnewtron import PNewtron
from learners.algorithms.second_order.soba import Soba, SobaState, margin_gain
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.algorithms.second_order.soba_low_rank import SobaLowRank, SobaLowRankState
from learners.base import AnyLearner, Contexts, FloatArray, Problem
from learners.mathematics.exploration import leader
from learners.mathematics.gaptron_schedules import safe_step
from learners.mathematics.losses import LOSS_CODES, LossName, gap_share, surrogate
from tests.learners.arrays import assert_close, copied, soba_inverse
from tests.learners.formulas import losses_of, theorem
from tests.learners.traces import LONG, MICRO, TOLERANCE, long_teacher, long_world
from tests.learners.worlds import Step, one_round, play

LOSSES: dict[str, LossName] = {"logistic": "logistic", "hinge": "hinge", "smooth": "smooth_hinge"}


def weights(learner: AnyLearner, state: Any) -> FloatArray:
    """Return W (K, d) of any of these learners."""
    w: FloatArray = learner.weights(state) if isinstance(learner, Gaptron | PNewtron) else state.weights.T
    return w


def second_order(state: Any) -> tuple[FloatArray, FloatArray]:
    """Return A in the form of the traces (a matrix for SOBA, a diagonal for SOBAdiag), and A⁻¹ as a matrix; a = 1."""
    if isinstance(state, SobaState | SobaLowRankState):
        inverse = soba_inverse(state, 1.0)
        return np.asarray(np.linalg.inv(inverse), dtype=np.float64), inverse
    diagonal = state.diagonal.T.ravel()
    return diagonal, np.diag(1.0 / diagonal)


class Look(NamedTuple):
    learner: Any
    step: Step
    trace: dict[str, Any]

    @property
    def scores(self) -> FloatArray:
        return np.asarray(weights(self.learner, self.step.before) @ self.trace["x"])

    def gaptron_loss(self) -> tuple[float, FloatArray]:
        coefficients, y = np.zeros(3), self.trace["y"]
        value = surrogate(LOSS_CODES[self.learner.loss], self.scores, y, coefficients)
        right = float(y == self.trace["sampled"])
        weight = 1.0 if self.learner.needs_true_label else right / self.step.distribution[y]
        return weight * value, weight * np.outer(coefficients, self.trace["x"])

    def soba_margin(self) -> tuple[float, float]:
        """Return SOBA's q = c u'A⁻¹u and m before the round, with ȳ of the trace."""
        u, y, rival = np.zeros((3, 2)), self.trace["y"], self.trace["ybar"]
        u[rival], u[y] = self.trace["x"], np.negative(self.trace["x"])
        c, inverse = 1.0 / self.step.distribution[y], second_order(self.step.before)[1]
        q = float(c * u.ravel() @ inverse @ u.ravel())
        return q, margin_gain(c, self.scores[rival] - self.scores[y], q)


READERS: dict[str, Callable[[Look], Any]] = {
    "scores": lambda look: look.scores,
    "p": lambda look: look.step.distribution,
    "W": lambda look: weights(look.learner, look.step.after),
    "ystar": lambda look: leader(look.scores),
    "yhat": lambda look: leader(look.scores),
    "gap": lambda look: gap_share(LOSS_CODES[look.learner.loss], look.scores, leader(look.scores)),
    "loss": lambda look: look.gaptron_loss()[0],
    "grad": lambda look: look.gaptron_loss()[1],
    "gamma_t": lambda look: 3 * look.step.distribution.min(),
    "n": lambda look: look.step.after.updates - look.step.before.updates,
    "q": lambda look: look.soba_margin()[0],
    "m": lambda look: look.soba_margin()[1],
    "sum_nm": lambda look: look.step.after.margin_sum,
    "sum_q": lambda look: look.step.after.quadratic_sum,
    "A": lambda look: second_order(look.step.after)[0],
    "theta": lambda look: np.linalg.solve(
        second_order(look.step.after)[1], weights(look.learner, look.step.after).ravel()
    ),
}
UNREAD = {"x", "y", "sampled", "ybar"}  # the inputs


def gaptron_of(trace: dict[str, Any], as_printed: bool) -> Gaptron:
    step = {} if as_printed else {"learning_rate": trace["eta"]}
    loss, bandit = (
        LOSSES[trace["loss"]],
        {"exploration": trace["gamma"]} if trace["bandit"] else {"information": "full"},
    )
    return theorem(Problem(3, 2), loss=loss, radius=trace["D"], **step, **bandit)


SOBA: dict[str, Any] = {"problem": Problem(3, 2), "regularization": 1.0}
MICRO_RUNS: list[tuple[str, Any, dict[str, Any]]] = [
    *((name, gaptron_of(trace, name.endswith("theorem")), trace) for name, trace in MICRO["gaptron"].items()),
    ("soba", Soba(**SOBA, exploration=0.3), MICRO["soba"]),
    ("soba_adaptive_gamma", Soba(**SOBA, exploration="adaptive"), MICRO["soba_adaptive_gamma"]),
    ("soba_rejections", Soba(**SOBA, exploration=0.5), MICRO["soba_rejections"]),
    ("soba_low_rank", SobaLowRank(**SOBA, exploration=0.3), MICRO["soba"]),
    ("soba_low_rank_adaptive", SobaLowRank(**SOBA, exploration="adaptive"), MICRO["soba_adaptive_gamma"]),
    ("soba_low_rank_rejections", SobaLowRank(**SOBA, exploration=0.5), MICRO["soba_rejections"]),
    ("sobadiag", SobaDiagonal(**SOBA, exploration=0.3), MICRO["sobadiag"]),
    ("banditron", Banditron(problem=Problem(3, 2), exploration=MICRO["banditron"]["gamma"]), MICRO["banditron"]),
    ("perceptron", Perceptron(problem=Problem(3, 2)), MICRO["perceptron"]),
]


@pytest.mark.parametrize(("learner", "trace"), [run[1:] for run in MICRO_RUNS], ids=[run[0] for run in MICRO_RUNS])
def test_micro_trace(learner: Any, trace: dict[str, Any]) -> None:
    state = learner.init()
    for expected in trace["rounds"]:
        decisions = learner.decide(state, Contexts.dense(expected["x"]))
        distribution, label = decisions.distributions[0], expected["sampled" if "sampled" in expected else "yhat"]
        propensity = distribution[label] or 1.0  # full information uses no weights and accepts any label
        rounds = one_round(expected["x"], label, propensity, expected["y"], decisions.evidence)
        after = learner.fold(copied(state), rounds)
        look = Look(learner, Step(state, distribution, rounds, after), expected)
        for key in expected.keys() - UNREAD:
            if expected[key] is not None:
                assert_close(READERS[key](look), np.asarray(expected[key]), TOLERANCE)
        state = after


@pytest.mark.parametrize(("key", "mode"), [("as_of_prediction", "as_of_prediction"), ("recomputed", "recompute")])
def test_delayed_micro_trace(key: str, mode: Any) -> None:
    trace, data, late = MICRO["gaptron_delayed_bandit_hinge"][key], MICRO["data"], []
    learner = theorem(
        problem=Problem(3, 2), loss="hinge", exploration=trace["gamma"], radius=trace["D"],
        learning_rate=trace["eta"], delayed_update=mode,
    )  # fmt: skip
    state = learner.init()
    for x, y, label, expected in zip(data["X"], data["y"], data["sampled"], trace["rounds"], strict=True):
        decisions = learner.decide(state, Contexts.dense(x))
        late.append(one_round(x, label, decisions.distributions[0, label], y, decisions.evidence))
        assert_close(decisions.distributions[0], expected["p"], TOLERANCE)
        assert_close(learner.weights(state) @ x, expected["scores"], TOLERANCE)
        if len(late) > trace["delay"]:
            state = learner.fold(state, late.pop(0))
        assert_close(learner.weights(state), expected["W_after"], TOLERANCE)
    for rounds in late:
        state = learner.fold(state, rounds)
    assert_close(learner.weights(state), trace["W_final"], TOLERANCE)


def test_long_world_matches_its_checks() -> None:
    world, checks = long_world(), LONG["checks"]
    assert_close(world.contexts[[0, 499]], [checks["x0"], checks["x499"]], 1e-12)
    assert_close(world.uniforms[:3], checks["u_first3"], 1e-12)
    assert world.truth[:20].tolist() == checks["y_first20"]
    assert np.bincount(world.truth).tolist() == LONG["label_counts"]


def long_bandit(name: str, full: type[Soba | SobaLowRank] = Soba) -> Any:
    problem, gamma = Problem(4, 5), 0.1
    if not name.startswith("gaptron"):
        cls: Any = SobaDiagonal if name == "sobadiag" else full
        room = {"max_updates": 500, "max_nonzeros": 2500} if full is SobaLowRank else {}
        exploration = "adaptive" if name == "soba_adaptive" else gamma
        return cls(problem=problem, regularization=1.0, exploration=exploration, **room)
    loss, scale = name.removeprefix("gaptron_bandit_").split("_x")
    return theorem(problem, loss=LOSSES[loss], exploration=gamma, radius=2.0, eta_scale=float(scale))


LONG_BANDIT = [
    *((name, long_bandit(name)) for name in LONG if name.startswith(("gaptron_bandit", "soba"))),
    *((name, long_bandit(name, SobaLowRank)) for name in ("soba", "soba_adaptive")),
    ("perceptron", Perceptron(problem=Problem(4, 5))),
    ("banditron", Banditron(problem=Problem(4, 5), exploration=LONG["banditron"]["gamma"])),
    ("newtron", Newtron(problem=Problem(4, 5), exploration=0.1, radius=1.0)),
    ("pnewtron_scale", PNewtron(problem=Problem(4, 5), exploration=0.1, radius=1.0)),
    ("pnewtron_none", PNewtron(problem=Problem(4, 5), exploration=0.1, radius=1.0, projection="none")),
]


@pytest.mark.parametrize(("name", "learner"), LONG_BANDIT, ids=[f"{run[0]}-{run[1].algorithm}" for run in LONG_BANDIT])
def test_long_bandit_trace(name: str, learner: Any) -> None:
    world, expected = long_world(), LONG[name]
    errors, mistakes, state = [], 0, learner.init()
    for step, y in zip(play(learner, world), world.truth, strict=True):
        errors.append(1.0 - step.distribution[y])
        mistakes += int(not step.round.correct[0])
        state = step.after
    actual = {
        "W": weights(learner, state),
        "normF": np.linalg.norm(weights(learner, state)),
        "mistakes": mistakes,
        "sum_1_minus_p": sum(errors),
    }
    if name.startswith("soba"):
        eigenvalues = 1.0 / np.linalg.eigvalsh(second_order(state)[1])
        actual |= {"updates": state.updates, "sum_nm": state.margin_sum, "sum_q": state.quadratic_sum}
        actual |= {"trace_A": eigenvalues.sum(), "logdet_A": np.log(eigenvalues).sum()}
    elif name.startswith("gaptron"):
        actual["eta"] = safe_step(learner.loss, learner.problem, 0.1) * learner.eta_scale
    for key in expected.keys() - {"gamma", "D", "a", "alpha", "beta"}:
        assert_close(actual[key], expected[key], TOLERANCE)


@pytest.mark.parametrize("name", LOSSES)
def test_long_full_information_trace(name: str) -> None:
    expected, world, loss = LONG[f"gaptron_full_{name}"], long_world(), LOSSES[name]
    learner = theorem(Problem(4, 5), loss=loss, information="full", radius=None)
    steps = list(play(learner, world))
    mistakes = sum(1.0 - s.distribution[y] for s, y in zip(steps, world.truth, strict=True))
    losses = np.array(
        [
            surrogate(LOSS_CODES[loss], s.round.evidence[0], y, np.zeros(4))
            for s, y in zip(steps, world.truth, strict=True)
        ]
    )
    comparators = {c: float(c) * long_teacher() for c in expected["comparator_loss"]}
    theirs = {c: losses_of(loss, world.contexts @ U.T, world.truth) for c, U in comparators.items()}
    if loss == "hinge":  # Theorem 2 charges the comparator only where the learner's loss is positive
        theirs = {c: np.where(losses > 0, their, 0.0) for c, their in theirs.items()}
    eta = safe_step(loss, learner.problem)
    bound = min(theirs[c].sum() + np.sum(U**2) / (2 * eta) for c, U in comparators.items())
    assert_close(weights(learner, steps[-1].after), expected["W"], TOLERANCE)
    assert_close(np.linalg.norm(expected["W"]), expected["normF"], TOLERANCE)
    assert_close(mistakes, expected["expected_mistakes"], TOLERANCE)
    assert_close(losses.sum(), expected["cumulative_loss"], TOLERANCE)
    assert_close([theirs[c].sum() for c in theirs], list(expected["comparator_loss"].values()), TOLERANCE)
    assert_close(bound, expected["theorem_bound_best_of_3"], TOLERANCE)
    assert mistakes <= bound
