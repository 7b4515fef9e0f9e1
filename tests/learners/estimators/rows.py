"""Rows with labels that depend on them, and estimators that learn them."""

from typing import Any

import numpy as np

from learners.estimators.bandit_classifier import BanditClassifier
from tests.learners.arrays import bits

N, D = 120, 4
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D)) * 3.0
X[RNG.random(X.shape) < 0.3] = 0.0
Y = np.array(["blue", "green", "red"])[np.argmax(X[:, :3], axis=1)]
CLASSES = ["red", "green", "blue"]
NAMES = list("abcd")


def classifier(**parameters: Any) -> BanditClassifier:
    return BanditClassifier(**{"random_state": 7} | parameters)


def fitted(**parameters: Any) -> BanditClassifier:
    return classifier(**parameters).partial_fit(X, Y, CLASSES)


def state_of(estimator: BanditClassifier) -> list[bytes]:
    return bits(estimator._state)
