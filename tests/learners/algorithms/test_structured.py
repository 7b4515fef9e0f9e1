"""The learners of label sets, rankings and levels: their answers by enumeration, and the theorems' bounds."""

import itertools
import math
from typing import Any

import numpy as np
import pydantic
import pytest

from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungMultilabel
from learners.algorithms.fenchel_young.fenchel_young_ordinal import FenchelYoungOrdinal
from learners.algorithms.fenchel_young.fenchel_young_ranking import FenchelYoungRanking
from learners.algorithms.fenchel_young.structured import Structured
from learners.answers import draw_answers, uniforms_per_answer
from learners.base import (
    NO_LABEL,
    Contexts,
    Decisions,
    FloatArray,
    IntArray,
    InvalidArrayError,
    Problem,
    Rounds,
    StepTooCostlyError,
)
from learners.mathematics.exploration import LEAST_PROPENSITY
from learners.new_models import check_step_cost
from service.settings import Settings
from tests.learners.arrays import assert_close, bits, copied, unit_rows

KINDS: dict[str, tuple[type[Any], int, dict[str, Any]]] = {
    "label-set": (FenchelYoungMultilabel, 4, {}),
    "slate": (FenchelYoungMultilabel, 5, {"set_size": 2}),
    "listed": (FenchelYoungMultilabel, 5, {"sets": ("11000", "01100", "00110", "00011", "10001", "11111")}),
    "crf": (FenchelYoungMultilabel, 5, {"loss": "crf", "sets": ("10000", "01000", "00100", "00010", "00001")}),
    "birkhoff": (FenchelYoungRanking, 3, {"polytope": "birkhoff"}),
    "permutahedron": (FenchelYoungRanking, 4, {}),
    "level": (FenchelYoungOrdinal, 6, {}),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
N_FEATURES = 4


def make(kind: str, n_labels: int | None = None, **more: Any) -> Any:
    cls, K, settings = KINDS[kind]
    return cls(problem=Problem(n_labels or K, N_FEATURES), **settings, **more)


def every_answer(learner: Any) -> IntArray:
    K = learner.problem.n_labels
    if isinstance(learner, FenchelYoungOrdinal):
        return np.arange(K)
    if isinstance(learner, FenchelYoungMultilabel):
        cube = np.array(list(itertools.product((0, 1), repeat=K)))
        return cube[learner.possible(cube)]
    return np.array(list(itertools.permutations(range(K))))


def some_means(learner: Any, seed: int, n: int = 30) -> FloatArray:
    """Return means ŷ (n, D) of small and large scores."""
    rng, D = np.random.default_rng(seed), learner.space.dimension
    scales = learner.space.constants.strong_convexity * np.exp(rng.normal(size=(n, 1)))
    return np.array([learner.space.decode(theta) for theta in scales * rng.normal(size=(n, D))])


@EACH_KIND
def test_answers_correspond_to_vertices(kind: str) -> None:
    learner = make(kind)
    answers = every_answer(learner)
    vertices = learner.vertices(answers)
    assert all(learner.space.contains(vertex) for vertex in vertices)
    assert len(np.unique(vertices, axis=0)) == len(answers)
    if not isinstance(learner, FenchelYoungOrdinal):
        assert (learner.rows(vertices) == answers).all()


@EACH_KIND
def test_propensities_match_the_draws(kind: str) -> None:
    learner, n = make(kind), 3_000
    answers = every_answer(learner)
    number = {row.tobytes(): i for i, row in enumerate(answers)}
    for mean in some_means(learner, 3, 4):
        law = np.array([learner.space.probability(mean, v) for v in learner.vertices(answers)])
        assert law.sum() == pytest.approx(1.0)
        decisions = decided(learner, np.tile(mean, (n, 1)), law)
        uniforms = np.random.default_rng(4).random((n, uniforms_per_answer(learner)))
        drawn = draw_answers(learner, decisions, uniforms)
        which = [number[row.tobytes()] for row in drawn.labels]
        assert_close(drawn.propensities, law[which], 1e-12)
        counts = np.bincount(which, minlength=len(answers))
        assert (np.abs(counts - n * law) <= 5.0 * np.sqrt(n * law * (1.0 - law)) + 1.0).all()


def decided(learner: Structured, means: FloatArray, law: FloatArray) -> Decisions:
    levels = isinstance(learner, FenchelYoungOrdinal)
    return Decisions(np.tile(law, (len(means), 1)) if levels else np.empty((len(means), 0)), means)


def test_label_probabilities_are_marginals() -> None:
    learner = make("label-set")
    answers, means = every_answer(learner), some_means(learner, 6)
    law = np.array([[learner.space.probability(mean, v) for v in learner.vertices(answers)] for mean in means])
    assert_close(learner.probabilities(means), law @ answers, 1e-12)


def test_underflowing_propensities_become_the_least() -> None:
    for K, expected in ((900, 0.5**900), (1050, LEAST_PROPENSITY), (1200, LEAST_PROPENSITY)):
        learner = make("label-set", K)
        decisions = Decisions(np.empty((1, 0)), np.full((1, K), 0.5))
        drawn = learner.draw(decisions, np.full((1, learner.n_uniforms), 0.25))
        assert drawn.propensities[0] == pytest.approx(expected, rel=1e-9, abs=0.0)


def teacher_world(learner: Structured, seed: int, n: int, noise: float) -> tuple[FloatArray, IntArray, FloatArray]:
    """Draw unit contexts (n, 4) and true answers by a noisy linear teacher; return them with the teacher (D, 4)."""
    rng, space = np.random.default_rng(seed), learner.space
    U = 3.0 * space.weight * rng.normal(size=(space.dimension, N_FEATURES))
    x = unit_rows(rng, n, N_FEATURES)
    theta = x @ U.T + noise * space.weight * rng.normal(size=(n, space.dimension))
    answers = every_answer(learner)
    V = learner.vertices(answers)
    nearest = [space.nearest(space.decode(t)) for t in theta]
    return x, answers[[int(np.flatnonzero((vertex == V).all(axis=1))[0]) for vertex in nearest]], U


def run(learner: Any, x: FloatArray, truths: IntArray, seed: int = 0) -> tuple[FloatArray, Any, FloatArray]:
    state, expected, suffered, rng = learner.init(), [], [], np.random.default_rng(seed)
    for one, truth in zip(x, truths, strict=True):
        contexts = Contexts.dense(one)
        decisions, y = learner.decide(state, contexts), truth[None]
        drawn = draw_answers(learner, decisions, rng.random((1, uniforms_per_answer(learner))))
        vertex = learner.vertices(y)[0]
        expected.append(learner.space.expected_loss(decisions.evidence[0], vertex))
        suffered.append(learner.space.target_loss(learner.vertices(drawn.labels)[0], vertex))
        correct = np.array([np.array_equal(drawn.labels[0], truth)])
        rounds = Rounds.of_bits(
            contexts, drawn.labels, drawn.propensities, correct, y, decisions.evidence, drawn.residual_uniforms
        )
        state = learner.fold(copied(state), rounds)
    return np.array(expected), state, np.array(suffered)


def surrogate_loss(learner: Structured, U: FloatArray, x: FloatArray, truths: IntArray) -> float:
    """Return the comparator term of the theorems: the sum of S over the rounds, for fixed weights (D, d)."""
    return sum(learner.space.surrogate(U @ one, y) for one, y in zip(x, learner.vertices(truths), strict=True))


@EACH_KIND
@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize(
    "settings",
    [{}, {"learning_rate": "adaptive", "radius": 8.0}, {"learning_rate": "high-probability"}],
    ids=lambda settings: settings.get("learning_rate", "theorem"),
)
def test_loss_is_within_the_bound(kind: str, noise: float, settings: dict[str, Any]) -> None:
    """Theorems 4.2 and 4.3 and Appendix E.1: loss <= surrogate loss of U + bound, for several U."""
    learner = make(kind, **settings)
    x, truths, teacher = teacher_world(learner, 11, 300, noise)
    expected, state, suffered = run(learner, x, truths)
    total = suffered.sum() if learner.learning_rate == "high-probability" else expected.sum()
    for U in (0.0 * teacher, 0.3 * teacher, teacher, learner.weights(state)):
        norm = float(np.linalg.norm(U))
        if norm <= settings.get("radius", math.inf) + 1e-9:
            assert total <= surrogate_loss(learner, U, x, truths) + learner.regret_bound(norm, failure=0.01)


@EACH_KIND
def test_steps_match_the_formulas(kind: str) -> None:
    """W moves by -η (ŷ - y) x', and is projected onto the ball."""
    adaptive: dict[str, Any] = {"learning_rate": "adaptive", "radius": 0.9}
    runs: list[dict[str, Any]] = [{}, {"learning_rate": 0.7}, {"learning_rate": 0.7, "radius": 0.5}, adaptive]
    for settings in runs:
        learner = make(kind, **settings)
        x, truths, _ = teacher_world(learner, 2, 20, 1.0)
        means, radius = some_means(learner, 9, 20), settings.get("radius", math.inf)
        W, squares, state = np.zeros((learner.n_scores, N_FEATURES)), 0.0, learner.init()
        for t in range(20):
            y, ones = truths[t : t + 1], np.ones(1)
            G = np.outer(means[t][: learner.n_scores] - learner.vertices(y)[0], x[t])
            squares += float((G**2).sum())
            fixed = settings.get("learning_rate", 2.0 * min(0.5, learner.surrogate_gap) / learner.smoothness)
            W = W - G * (2.0 * radius / math.sqrt(2.0 * squares) if settings is adaptive else fixed)
            W *= min(1.0, radius / max(float(np.linalg.norm(W)), 1e-300))
            one = Rounds.of_bits(Contexts.dense(x[t]), y, ones, ones > 0, y, means[t : t + 1], 0.0 * ones)
            state = learner.fold(state, one)
            assert_close(learner.weights(state), W, 1e-9)


@EACH_KIND
def test_unknown_truths_and_large_evidence_are_harmless(kind: str) -> None:
    learner = make(kind, learning_rate=1.0)
    x, truths, _ = teacher_world(learner, 2, 1, 0.0)
    empty = np.zeros((1, learner.evidence_size))
    one = Rounds.of_bits(Contexts.dense(x), truths, np.ones(1), np.ones(1, bool), truths, empty, np.zeros(1))
    unknown = learner.fold(learner.init(), one._replace(true_labels=np.full_like(truths, NO_LABEL)))
    assert bits(unknown) == bits(learner.init()._replace(rounds=np.array(1)))
    far = learner.fold(learner.init(), one._replace(evidence=empty + 1e300))
    assert np.abs(learner.weights(far)).max() <= learner.space.largest_entry


@pytest.mark.parametrize(
    ("kind", "n_labels", "settings", "field", "reason"),
    [
        ("label-set", 4, {"regularization": 2.0}, "regularization", "use a value of at least 2.001"),
        ("level", 5, {"regularization": 2.0}, "regularization", "use a value of at least 2.001"),
        ("level", 3, {"regularization": 1e-6}, "regularization", "use a value of at least 2.829"),
        ("permutahedron", 3, {"regularization": 1.0}, "regularization", "use a value of at least 1.001"),
        ("permutahedron", 3, {"sharpness": 1.0}, "sharpness", "takes a regularization"),
        ("birkhoff", 3, {"regularization": 1.0}, "regularization", "takes a sharpness"),
        ("birkhoff", 3, {"sharpness": 2.0}, "sharpness", "less than 2"),
        ("label-set", 4, {"set_size": 4}, "set_size", "must be less than 4"),
        ("label-set", 4, {"set_size": 2, "sets": ("1100", "0011")}, "sets", "leave out set_size"),
        ("label-set", 4, {"sets": ("1100", "001")}, "sets", "set 1 has 3 digits"),
        ("label-set", 4, {"sets": ("1100", "0011", "1100")}, "sets", "set 2 is the same as set 0"),
        ("label-set", 4, {"sets": ("1100",)}, "sets", "2 items"),
        ("label-set", 4, {"loss": "crf"}, "loss", "crf needs sets"),
        ("slate", 5, {"regularization": 0.1}, "regularization", "use a value of at least 1.24"),
        ("listed", 5, {"regularization": 0.1}, "regularization", "use a value of at least 1.265"),
        ("crf", 5, {"regularization": 0.1}, "regularization", "use a value of at least 0.4001"),
        ("birkhoff", 21, {}, "polytope", "at most 20 labels; use polytope permutahedron"),
        ("birkhoff", 1001, {}, "polytope", "at most 20 labels; use fenchel-young-multilabel"),
        ("permutahedron", 1001, {}, "polytope", "at most 1000 labels; use fenchel-young-multilabel"),
    ],
)
def test_hyperparameters_outside_the_theory_are_refused(
    kind: str, n_labels: int, settings: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=reason) as caught:
        make(kind, n_labels, **settings)
    assert [error["loc"] for error in caught.value.errors()] == [(field,)]
    if "at least " in reason:
        make(kind, n_labels, regularization=float(reason.split("at least ")[1]))


@pytest.mark.parametrize("rate", [0.5, "parameter-free"])
def test_regret_bound_without_a_theorem_is_refused(rate: Any) -> None:
    with pytest.raises(ValueError, match="no theorem"):
        make("label-set", learning_rate=rate).regret_bound(1.0)


@pytest.mark.parametrize(
    ("kind", "answer", "vertex"),
    [
        ("label-set", [1, 0, 0, 1], [1, 0, 0, 1]),
        ("permutahedron", [2, 0, 3, 1], [3, 1, 4, 2]),  # points of labels 0, 1, 2, 3
        ("birkhoff", [2, 0, 1], [0, 1, 0, 0, 0, 1, 1, 0, 0]),  # label 0 at place 1, 1 at 2, 2 at 0
        ("level", 2, [1, 1, 0, 0, 0]),
    ],
)
def test_vertices_match_hand_computation(kind: str, answer: Any, vertex: list[float]) -> None:
    """The vectors of a set, a ranking (first label first) and a level match a hand computation."""
    assert make(kind).vertices(np.array([answer]))[0].tolist() == vertex


@pytest.mark.parametrize(
    ("kind", "answers", "possible"),
    [
        ("label-set", [[0, 0, 0, 0], [1, 1, 1, 1], [2, 0, 0, 0], [-1, 0, 0, 0]], [True, True, False, False]),
        ("slate", [[1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [2, 0, 0, 0, 0], [-1] * 5], [True, False, False, False]),
        ("listed", [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [-1] * 5], [True, True, False, False]),
        ("permutahedron", [[3, 1, 0, 2], [3, 1, 1, 2], [4, 1, 0, 2], [-1] * 4], [True, False, False, False]),
    ],
)
def test_only_possible_answers_are_learned_from(kind: str, answers: Any, possible: list[bool]) -> None:
    learner, ones = make(kind), np.ones(1)
    evidence = np.zeros((1, learner.evidence_size))
    assert learner.possible(np.array(answers)).tolist() == possible
    for answer, is_possible in zip(np.array(answers), possible, strict=True):
        rows = answer[None]
        one = Rounds.of_bits(Contexts.dense(np.ones(4)), rows, ones, ones > 0, rows, evidence, 0.0 * ones)
        if is_possible:
            learner.fold(learner.init(), one)
        else:
            with pytest.raises(InvalidArrayError, match=f"labels: every row must be {learner.possible_named}"):
                learner.fold(learner.init(), one)


def test_the_cost_of_a_list_is_limited() -> None:
    """10,000 sets of 100 labels fit into the default limit; 1,000 sets of 1,000 labels do with the loss crf only."""
    most = Settings().max_step_cost
    for n_sets, n_labels in ((10_000, 100), (1_000, 1_000)):
        rng = np.random.default_rng(n_sets)
        sets = tuple("".join(map(str, row)) for row in rng.integers(0, 2, size=(n_sets, n_labels)))
        for loss in ("sparsemap", "crf"):
            hyperparameters: dict[str, Any] = {"sets": sets, "loss": loss}
            learner: Any = FenchelYoungMultilabel(problem=Problem(n_labels, 10), **hyperparameters)
            if (n_labels, loss) == (1_000, "sparsemap"):
                with pytest.raises(StepTooCostlyError, match="use fewer labels, sets or features"):
                    check_step_cost(learner, most)
            else:
                check_step_cost(learner, most)
