"""Learners without a server: a scikit-learn estimator, and the comparison of learners on labelled data."""

from learners.estimators.bandit_classifier import BanditClassifier, Choices, NotFittedError
from learners.estimators.compare import compare
from learners.estimators.report import Comparison

__all__ = ["BanditClassifier", "Choices", "Comparison", "NotFittedError", "compare"]
