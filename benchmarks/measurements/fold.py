"""Rounds per second of a fold on one core, compared with a floor: the arithmetic that it cannot avoid."""

import time
from collections.abc import Callable

import numba
import numpy as np
from scipy.linalg.blas import dsyr

from benchmarks.report import Row, at_most
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.second_order.soba import Soba, SobaState
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.base import NO_LABEL, AnyLearner, Contexts, FloatArray, Problem, Rounds

_SPEED_WANTED = 1_000_000  # rounds per second


def made_up_rounds(learner: AnyLearner, n: int, correct: float, seed: int) -> Rounds:
    """Return n rounds with random contexts and evidence; a share `correct` of them is right."""
    rng = np.random.default_rng(seed)
    K, d = learner.problem.n_labels, learner.problem.n_features
    contexts = rng.normal(size=(n, d))
    contexts /= np.linalg.norm(contexts, axis=1)[:, None]
    return Rounds.of_bits(
        contexts=Contexts.dense(contexts),
        labels=rng.integers(0, K, n),
        propensities=np.full(n, 0.3),
        correct=rng.random(n) < correct,
        true_labels=np.full(n, NO_LABEL),
        evidence=rng.normal(size=(n, learner.evidence_size)),
        residual_uniforms=rng.random(n),
    )


def best_seconds(work: Callable[[], object], repeats: int = 7) -> float:
    """Return the shortest processor time of several runs, over all threads. Other load can only add to it."""

    def once() -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    return min(once() for _ in range(repeats))


@numba.njit(nogil=True)
def _outer_products(weights: FloatArray, contexts: FloatArray, coefficients: FloatArray) -> None:
    for t in range(len(contexts)):
        for i in range(weights.shape[0]):
            for k in range(weights.shape[1]):
                weights[i, k] += contexts[t, i] * coefficients[k]


def fold_row(learner: AnyLearner, name: str, n: int) -> Row:
    """Compare a fold in which every round changes the weights with one outer product per round, the floor."""
    problem, rounds = learner.problem, made_up_rounds(learner, n, correct=1.0, seed=1)
    contexts = rounds.contexts.values.reshape(n, -1)
    weights, coefficients = np.zeros((problem.n_features, problem.n_labels)), np.full(problem.n_labels, 1e-6)

    def fold() -> None:
        learner.fold(learner.init(), rounds)

    def floor() -> None:
        _outer_products(weights, contexts, coefficients)

    fold()  # compiles the kernel
    floor()
    rate, floor_rate = n / best_seconds(fold), n / best_seconds(floor)
    what = f"fold {name}, K = {problem.n_labels}, d = {problem.n_features}, all correct"
    figures = f"{rate:,.0f} rounds/s", f"{floor_rate:,.0f} outer products/s"
    return Row(what, *figures, rate / floor_rate, f"≥ {_SPEED_WANTED:,}/s", rate >= _SPEED_WANTED)


def soba_row(problem: Problem, n: int) -> Row:
    """Compare an accepted update of dense SOBA, which updates both A and A⁻¹, with BLAS's update of one matrix."""
    learner, size = Soba(problem=problem), problem.n_labels * problem.n_features
    rounds = made_up_rounds(learner, n, correct=1.0, seed=2)
    state = learner.fold(_accepting(learner), rounds)  # compiles the kernel, and touches the state's memory
    seconds = best_seconds(lambda: learner.fold(state, rounds)) / n
    matrix, vector = np.asfortranarray(np.eye(size)), np.ones(size) / size
    floor = best_seconds(lambda: [dsyr(1e-9, vector, a=matrix, overwrite_a=1) for _ in range(n)]) / n
    return at_most(f"fold soba, K·d = {size:,}, an update, vs. dsyr", seconds * 1e6, floor * 1e6, "µs", 1.5)


def _accepting(learner: Soba) -> SobaState:
    """Return an initial state whose margin sum lets every correct round pass the test."""
    state = learner.init()
    state.margin_sum[()] = 1e9
    return state


def rows(n: int = 50_000) -> list[Row]:
    """Return the table of folds."""
    problem = Problem(10, 20)
    gaptrons = [
        fold_row(Gaptron(problem=problem, loss=loss), f"gaptron, {loss}", n)
        for loss in ("logistic", "hinge", "smooth_hinge")
    ]
    sobas = [soba_row(Problem(7, 54), n // 50), soba_row(Problem(9, 400), max(1, n // 5_000))]
    return [*gaptrons, fold_row(SobaDiagonal(problem=problem), "soba-diagonal", n), *sobas]
