"""A classifier that learns from bandit feedback, in scikit-learn's manner."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from learners.base import FloatArray
from learners.estimators.classes import AnyArray, numbered, read_labels, sorted_classes
from learners.estimators.feedback import (
    check_feedback,
    fold_logged,
    read_bits,
    read_propensities,
    read_rewards,
    rounds_of,
)
from learners.estimators.fitted import Fitted
from learners.estimators.inputs import read_table
from learners.estimators.seeds import Generator
from learners.estimators.setup import InterceptChoice, NormChoice
from learners.mathematics.exploration import draw

SelfT = TypeVar("SelfT", bound="BanditClassifier")


class Choices(NamedTuple):
    """The labels drawn for n contexts, with what `update` needs again."""

    labels: AnyArray  # (n,), of `classes_`
    propensities: FloatArray  # (n,), in (0, 1], the probability of each label when it was drawn
    evidence: FloatArray  # (n, E), the learner's numbers at that moment
    residual_uniforms: FloatArray  # (n,), in [0, 1), uniform given the label


class BanditClassifier(Fitted):
    """A learner that sees for each prediction only whether its label was right.

    `partial_fit` with fully labelled data simulates this: for each row in order, the learner answers a distribution, a
    label is drawn, and the learner gets the bit. Learners under full information get the true label. For feedback on
    labels that were drawn elsewhere, use `partial_fit_logged`; for a loop of your own, `sample` and `update`.

    Contexts are prepared as in a new model of the service: see docs/contexts.md.

    Args:
        algorithm: a learner that answers single labels; docs/learners.md lists them.
        hyperparameters: those of the learner, by name; defaults if missing.
        norm: the norm policy: "none", "scale", "unit", "reject", or "default" for that of the learner.
        norm_bound: X, the bound on the norm of contexts, from 1e-6 to 1e6.
        intercept: whether contexts get a constant feature, or "default" for what the learner has.
        random_state: an integer for reproducible draws, a numpy generator, or None for draws that differ each time.

    Attributes:
        classes_: the K labels, sorted; also the columns of `predict_proba`.
        n_features_in_: d.
        feature_names_in_: the names of the columns, if X was a data frame.
        learner_: the learner.
        rounds_: rounds learnt so far.
        mistakes_: how many of the rounds of `fit` or `partial_fit` had a wrong label; their share is the progressive
            validation error.
    """

    def __init__(
        self,
        algorithm: str = "fastcb",
        *,
        hyperparameters: Mapping[str, Any] | None = None,
        norm: NormChoice = "default",
        norm_bound: float = 1.0,
        intercept: InterceptChoice = "default",
        random_state: int | Generator | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.hyperparameters = hyperparameters
        self.norm = norm
        self.norm_bound = norm_bound
        self.intercept = intercept
        self.random_state = random_state

    # --- learning

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn from rows in order, as `partial_fit` with the classes of `y`.

        Raises:
            ValueError: as `partial_fit`.
        """
        table = read_table(X)
        labels = read_labels("y", y, table.contexts.n)
        classes = sorted_classes("y", labels)
        self._begin(table, classes)
        return self._simulate(table, numbered("y", labels, classes))

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Simulate bandit feedback for rows in order. Batches of any sizes give the same state, to the bit.

        Args:
            X: (n, d), n rows: lists, an array, a data frame or a sparse matrix.
            y: (n,), the true label of each row: strings, integers or booleans.
            classes: all labels; needed in the first call.

        Raises:
            ValueError: if X, y, classes or a parameter is invalid; nothing is learnt then.
        """
        table = read_table(X)
        labels = read_labels("y", y, table.contexts.n)
        known = self._classes(classes)
        truths = numbered("y", labels, known)
        self._prepare_for(table, known)
        return self._simulate(table, truths)

    def partial_fit_logged(  # the columns of a log
        self, X: Any, labels: Any, propensities: Any, rewards: Any, classes: Any = None, true_labels: Any = None
    ) -> Self:
        """Learn from rounds that another policy or process made.

        What the learner remembers from a prediction is computed when the round is learnt, as if it had just answered.

        Args:
            X: (n, d).
            labels: (n,), the labels that were answered.
            propensities: (n,), in (0, 1], the probability with which each label was drawn.
            rewards: (n,), whether each label was right, or rewards from 0 to 1 if the learner accepts them.
            classes: all labels; needed in the first call.
            true_labels: (n,), only for learners under full information, which need them.

        Raises:
            ValueError: if an argument is invalid; nothing is learnt then.
        """
        table, known = read_table(X), self._classes(classes)
        n = table.contexts.n
        answered = numbered("labels", read_labels("labels", labels, n), known)
        columns = read_propensities(propensities, n), read_rewards("rewards", rewards, n)
        truths = self._truths(true_labels, n, known)
        self._prepare_for(table, known)
        check_feedback(self.learner_, columns[1], truths)
        contexts, uniforms = self._setup.prepared(table.contexts), self._rng.random(n)
        rounds = rounds_of(contexts, answered, *columns, truths, np.empty((n, 0)), uniforms)
        return self._learnt(fold_logged(self.learner_, self._state, rounds), n)

    def sample(self, X: Any) -> Choices:
        """Draw a label for each row from the present distributions. Pass the result to `update` with the feedback.

        Raises:
            NotFittedError: if there are no classes yet.
            ValueError: if X is invalid.
        """
        contexts = self._contexts(X)
        decisions = self.learner_.decide(self._state, contexts)
        places, propensities, residual = draw(decisions.distributions, self._rng.random(contexts.n))
        return Choices(self.classes_[places], propensities, decisions.evidence, residual)

    def update(
        self, X: Any, choices: Choices, correct: Any = None, rewards: Any = None, true_labels: Any = None
    ) -> Self:
        """Learn from the feedback on labels that `sample` drew, at any later time and in any order.

        Args:
            X: (n, d), the rows given to `sample`.
            choices: what `sample` returned.
            correct: (n,), whether each label was right.
            rewards: (n,), in the place of `correct`: rewards from 0 to 1, if the learner accepts them.
            true_labels: (n,), in the place of both, or in addition.

        Raises:
            NotFittedError: if there are no classes yet.
            ValueError: if an argument is invalid; nothing is learnt then.
        """
        contexts = self._contexts(X)
        n, known = contexts.n, self.classes_
        if not isinstance(choices, Choices):
            raise ValueError(f"choices: must be what `sample` returned, not {type(choices).__name__}")
        answered = numbered("choices.labels", read_labels("choices.labels", choices.labels, n), known)
        truths = self._truths(true_labels, n, known)
        if (correct is None) == (rewards is None) and (correct is not None or truths is None):
            raise ValueError("feedback: give `correct`, `rewards` or `true_labels`, and not both of the first")
        if correct is None and rewards is None:
            paid = (answered == truths).astype(np.float64)
        else:
            paid = read_bits("correct", correct, n) if rewards is None else read_rewards("rewards", rewards, n)
        check_feedback(self.learner_, paid, truths)
        rounds = rounds_of(contexts, answered, choices.propensities, paid, truths, *choices[2:])
        return self._learnt(self.learner_.fold(self._state, rounds), n)

    # --- answers

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the distribution over `classes_` for each row, (n, K): that from which a label would be drawn.

        Raises:
            NotFittedError: if there are no classes yet.
            ValueError: if X is invalid.
        """
        contexts = self._contexts(X)
        return self.learner_.decide(self._state, contexts).distributions

    def predict(self, X: Any) -> AnyArray:
        """Return the most probable class of each row, (n,). Raises as `predict_proba`."""
        places = np.argmax(self.predict_proba(X), axis=1)
        most_probable: AnyArray = self.classes_[places]
        return most_probable

    def score(self, X: Any, y: Any) -> float:
        """Return the share of rows whose most probable class is right.

        Raises:
            NotFittedError: if there are no classes yet.
            ValueError: if X or y is invalid.
        """
        answers = self.predict(X)
        truths = read_labels("y", y, len(answers))
        return float(np.mean(numbered("y", truths, self.classes_) == numbered("y", answers, self.classes_)))
