"""States with their labels and features in another order."""

from typing import Any, get_type_hints

import numpy as np

from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.bandit_reduction import BanditReduction
from learners.algorithms.regression.growing_learner import FeatureRows, index_features
from learners.base import AnyLearner, FloatArray, IntArray, Problem
from learners.layouts import Layout
from tests.learners.arrays import copied, monomials, pack, unpacked


def _packed(packed: FloatArray, order: IntArray) -> FloatArray:
    return pack(unpacked(packed)[np.ix_(order, order)])


def permuted(learner: AnyLearner, state: Any, labels: IntArray, features: IntArray) -> Any:
    if isinstance(learner, BanditReduction):
        return _with_base(learner, state, labels, features)
    if isinstance(learner, AdaBoostOlm):
        memories = [_memory(learner, memory, labels, features) for memory in state.memories]
        return copied(state)._replace(memories=np.array(memories, order="C"))
    return _by_symbols(learner, state, labels, features)


def chooses_by_place(learner: AnyLearner) -> bool:
    return isinstance(learner, AdaBoostOlm) and learner.weak_learner != "perceptron"


def _by_symbols(learner: AnyLearner, state: Any, labels: IntArray, features: IntArray) -> Any:
    order = {
        "K": labels,
        "n_scores": _scores(learner, labels),
        "d": features,
        "features": _monomials(learner, features),
        "n": _cells(learner.problem, labels, features),
    }
    triangles = {"P": order["n"], "p": features}

    def one(array: Any, layout: Layout) -> Any:
        for axis, symbol in enumerate(layout.shape):
            if symbol in triangles:
                array = np.apply_along_axis(_packed, axis, array, triangles[symbol])
            elif symbol in order:
                array = array.take(order[symbol], axis)
        if layout.index_of in order:
            array = np.argsort(order[layout.index_of])[array]
        return np.array(array, order="C")

    hints = get_type_hints(learner.state_type, include_extras=True)
    arrays = {name: one(getattr(state, name), hint.__metadata__[0]) for name, hint in hints.items()}
    return _indexed(type(state)(**arrays))


def _indexed(state: Any) -> Any:
    if hasattr(state, "slots"):
        index_features(FeatureRows(state.features, state.slots.reshape(-1), state.row_counts))
    return state


def _monomials(learner: Any, features: IntArray) -> IntArray:
    if not hasattr(learner, "highest"):
        return np.arange(0)
    x = np.random.default_rng(1).random((1, len(features))) / len(features)
    before, after = (monomials(row, learner.highest)[0] for row in (x, x[:, features]))  # all values differ
    return np.asarray(before.argsort()[after.argsort().argsort()])


def _scores(learner: Any, labels: IntArray) -> IntArray:
    K, n_scores = learner.problem.n_labels, getattr(learner, "n_scores", 0)
    return (labels[:, None] * K + np.arange(K)).ravel() if n_scores == K * K else labels[:n_scores]


def _cells(problem: Problem, labels: IntArray, features: IntArray) -> IntArray:
    return np.asarray((labels[:, None] * problem.n_features + features).ravel())


def _with_base(learner: BanditReduction, state: Any, labels: IntArray, features: IntArray) -> Any:
    result = copied(state)
    base = permuted(learner.base_learner, learner.base_state(state), labels, features)
    for part, new in zip(learner.base_state(result), base, strict=True):
        part[...] = new
    return result


def _memory(learner: AdaBoostOlm, memory: FloatArray, labels: IntArray, features: IntArray) -> FloatArray:
    K = len(labels)
    if learner.weak_learner == "perceptron":
        return memory[np.ix_(features, labels)]
    if learner.weak_learner == "folklore":
        n = min(learner.features_per_learner, learner.problem.n_features) + 1
        cells = _cells(Problem(K, n), labels, np.arange(n))
        triangle = memory.size - K * n
        return np.concatenate([_packed(memory[0, :triangle], cells), memory[0, triangle:][cells]])[None]
    columns = np.concatenate([labels, np.arange(K, memory.shape[1])])
    return memory[:, columns]
