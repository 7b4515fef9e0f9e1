"""A simulation equals the plain loop of decide, draw and fold, bit for bit, for every learner."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.algorithms.first_order.perceptron import Perceptron
from learners.algorithms.first_order.uniform import Uniform, UniformState
from learners.algorithms.improper.bandit_reduction import BanditReduction
from learners.answers import is_structured
from learners.base import NO_LABEL, AnyLearner, BoolArray, Contexts, IntArray, Problem, Rounds
from learners.evaluation.simulation import Simulation, simulate
from learners.kernels import call_by_state
from learners.mathematics.exploration import draw
from tests.learners.arrays import as_sparse, bits
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import World, make_world

PROBLEM = Problem(4, 5)
N = 200


class Setting(NamedTuple):
    learner: AnyLearner
    contexts: Contexts
    world: World

    def play(self, start: int = 0, stop: int = N, state: Any = None, right: BoolArray | None = None) -> Simulation:
        return simulate(
            self.learner,
            some(self.contexts, start, stop),
            self.world.truth[start:stop],
            self.world.uniforms[start:stop],
            state,
            right,
        )


@pytest.fixture(params=["dense", "sparse"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


LABELLERS = [case for case in IMPLEMENTATIONS if not is_structured(case.learner)]


@pytest.fixture(params=LABELLERS, ids=str)
def setting(request: pytest.FixtureRequest, kind: str) -> Setting:
    case: Case = request.param
    learner = case.at(PROBLEM)
    world = make_world(11, N, learner.problem)
    world.contexts[np.random.default_rng(12).random(world.contexts.shape) < 0.3] = 0.0
    contexts = Contexts.dense(world.contexts)
    return Setting(learner, contexts if kind == "dense" else as_sparse(contexts), world)


def some(contexts: Contexts, start: int, stop: int) -> Contexts:
    starts, indices, values, shared = contexts
    first, last = starts[start], starts[stop]
    own = indices if shared else indices[first:last].copy()
    return Contexts(starts[start : stop + 1] - first, own, values[first:last].copy(), shared)


def only(truth: IntArray) -> BoolArray:
    """Return which labels are right, (n, K), where the true label alone is."""
    right: BoolArray = truth[:, None] == np.arange(PROBLEM.n_labels)
    return right


def plain_loop(setting: Setting, right: BoolArray) -> Simulation:
    learner, contexts, world = setting
    state, rows = learner.init(), []
    for t in range(N):
        context, truth = some(contexts, t, t + 1), world.truth[t : t + 1]
        distributions, evidence = learner.decide(state, context)
        labels, propensities, residual_uniforms = draw(distributions, world.uniforms[t : t + 1])
        seen: IntArray = truth if learner.needs_true_label else np.array([NO_LABEL])
        correct = right[t, labels]
        rounds = Rounds.of_bits(context, labels, propensities, correct, seen, evidence, residual_uniforms)
        state = learner.fold(state, rounds)
        abstained = learner.abstention_reward is not None and labels[0] == learner.problem.n_labels - 1
        rows.append((labels[0], propensities[0], not correct[0] and not abstained))
    labels, propensities, mistakes = (np.array(column) for column in zip(*rows, strict=True))
    return Simulation(labels, propensities, mistakes, state)


def test_simulation_equals_the_plain_loop(setting: Setting) -> None:
    simulation, expected = setting.play(), plain_loop(setting, only(setting.world.truth))
    assert bits(simulation) == bits(expected)
    assert [column.dtype for column in simulation[:3]] == [np.int64, np.float64, np.bool_]
    assert type(simulation.state) is setting.learner.state_type


class Abstaining(BanditReduction):
    """A learner without kernels whose last label abstains."""

    abstention_reward = 0.7


def test_abstentions_are_no_mistakes_without_kernels() -> None:
    learner = Abstaining(problem=Problem(3, 5), exploration=1.0)
    world = make_world(11, N, learner.problem)
    played = simulate(learner, Contexts.dense(world.contexts), world.truth, world.uniforms)
    wrong: BoolArray = played.labels != world.truth
    assert (wrong & (played.labels == 2)).any()
    assert (played.mistakes == (wrong & (played.labels != 2))).all()


def test_any_number_of_labels_can_be_right(setting: Setting) -> None:
    right: BoolArray = np.random.default_rng(13).random((N, setting.learner.problem.n_labels)) < 0.4
    assert bits(setting.play(right=right)) == bits(plain_loop(setting, right))


def test_simulation_can_be_resumed(setting: Setting) -> None:
    whole, state, parts = setting.play(), setting.learner.init(), []
    for start, stop in ((0, 0), (0, 70), (70, 71), (71, N)):
        parts.append(setting.play(start, stop, state))
        state = parts[-1].state
    joined = [np.concatenate(column) for column in zip(*(part[:3] for part in parts), strict=True)]
    assert bits((*joined, state)) == bits(whole)


def test_given_state_is_updated_in_place() -> None:
    learner, world = Uniform(problem=PROBLEM), make_world(1, N, PROBLEM)
    setting, state = Setting(learner, Contexts.dense(world.contexts), world), learner.init()
    assert setting.play(state=state).state is state
    setting.play()
    assert int(state.rounds) == N


def test_state_type_belongs_to_one_learner() -> None:
    kernels = Uniform(problem=PROBLEM).kernels
    call_by_state(UniformState, kernels)
    with pytest.raises(TypeError, match="UniformState has other kernels"):
        call_by_state(UniformState, kernels._replace(fold=Perceptron(problem=PROBLEM).kernels.fold))


@pytest.mark.parametrize(
    ("truth", "uniforms", "complaint"),
    [
        ([0, 1], [0.5, 0.5, 0.5], r"true_labels: .*\(3,\), not \(2,\)"),
        ([0, 1, 2], [0.5], r"uniforms: .*\(3,\), not \(1,\)"),
        ([0, 1, 4], [0.5, 0.5, 0.5], "true_labels: must be from 0 to 3"),
        ([0, -1, 2], [0.5, 0.5, 0.5], "true_labels: must be from 0 to 3"),
        ([0, 1, 2], [0.5, 1.0, 0.5], "below 1"),
        ([0, 1, 2], [0.5, float("nan"), 0.5], "below 1"),
    ],
)
def test_wrong_arrays_are_refused(truth: list[int], uniforms: list[float], complaint: str) -> None:
    learner = Uniform(problem=PROBLEM)
    with pytest.raises(ValueError, match=complaint):
        simulate(learner, Contexts.dense(np.zeros((3, 5))), np.array(truth), np.array(uniforms))


@pytest.mark.parametrize(
    ("reward", "right", "complaint"),
    [
        (1.5, None, "rewards: every number must be from 0 to 1"),
        (float("nan"), None, "rewards: every number must be from 0 to 1"),
        (1.0, True, "pass either `rewards` or `right`, not both"),
    ],
)
def test_wrong_rewards_are_refused(reward: float, right: bool | None, complaint: str) -> None:
    rewards, truth = np.full((3, 4), reward), np.zeros(3, np.int64)
    mask = None if right is None else np.full((3, 4), right)
    with pytest.raises(ValueError, match=complaint):
        simulate(
            Uniform(problem=PROBLEM), Contexts.dense(np.zeros((3, 5))), truth, np.zeros(3), right=mask, rewards=rewards
        )
