"""A scikit-learn classifier that learns from bandit feedback."""

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from learners.base import AnyLearner, Contexts, FloatArray, IntArray, State
from learners.estimators.inputs import (
    AnyArray,
    Table,
    check_feedback,
    fold_logged,
    numbered,
    read_bits,
    read_labels,
    read_propensities,
    read_rewards,
    read_table,
    rounds_of,
    sorted_classes,
)
from learners.estimators.setup import Choice, InterceptChoice, NormChoice, Setup, set_up
from learners.evaluation.simulation import simulate
from learners.mathematics.exploration import draw

Generator: TypeAlias = np.random.Generator


def generator(random_state: Any) -> Generator:
    """Return a generator for a seed ≥ 0, a generator, a `RandomState` or None. Raises `ValueError` otherwise."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    if random_state is None:
        return np.random.default_rng()
    is_whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not is_whole or random_state < 0:
        raise ValueError(f"random_state: got {random_state!r}; must be an integer ≥ 0, a generator of numpy, or None")
    return np.random.default_rng(int(random_state))


class WithParameters:
    """An estimator whose parameters are the arguments of its constructor, which stores each under its name."""

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        signature = inspect.signature(cls)
        return {name: parameter.default for name, parameter in signature.parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name. `deep`, for scikit-learn, has no effect: no parameter is an estimator."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: object) -> Self:
        """Set parameters by name, for the next `fit`; return the estimator. Raises `ValueError` for an unknown name."""
        known = self._parameters()
        for name in parameters:
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {sorted(known)}."
                )
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults, given = self._parameters(), self.get_params()
        shown = [f"{name}={value!r}" for name, value in given.items() if repr(value) != repr(defaults[name])]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            transformer_tags=None,
            regressor_tags=None,
            input_tags=InputTags(sparse=True),
        )


class NotFittedError(ValueError, AttributeError):
    """The estimator has no classes yet: call `partial_fit` or `fit` first."""


class Choices(NamedTuple):
    """The labels drawn for n contexts, with the numbers that `update` needs."""

    labels: AnyArray  # (n,), of `classes_`
    propensities: FloatArray  # (n,), in (0, 1], the probability of each label when it was drawn
    evidence: FloatArray  # (n, E), what `update` needs from each decision; E depends on the learner
    residual_uniforms: FloatArray  # (n,), in [0, 1), uniform given the label


class BanditClassifier(WithParameters):
    """A classifier that learns from bandit feedback: whether the label that it drew for a row was right, or a reward.

    `fit` and `partial_fit` simulate this with true labels: for each row in order, the learner computes a distribution,
    a label is drawn, and the learner sees whether it is right. Full-information learners see the true label as well.
    For feedback on labels drawn elsewhere, use `partial_fit_logged`; for a loop of your own, `sample` and `update`.

    Rows are contexts, and are prepared as in a new model of the service: see docs/guides/contexts.md.

    Args:
        algorithm: a learner that answers single labels; docs/reference/learners.md lists them.
        hyperparameters: values for some of the learner's hyperparameters, by name; the rest keep their defaults.
        norm: the norm policy: "none", "scale", "unit", "reject", or "default" for that of the learner.
        norm_bound: the bound on the norm of contexts, from 1e-6 to 1e6.
        intercept: whether contexts get a constant feature, or "default" for the learner's default.
        random_state: an integer for reproducible draws, a numpy generator, or None for draws that differ each time.

    Attributes:
        classes_: the K labels, sorted; also the columns of `predict_proba`.
        n_features_in_: d, the number of columns of X.
        feature_names_in_: the names of the columns, if X was a data frame in which all names are strings.
        learner_: the learner.
        rounds_: rounds learnt so far.
        mistakes_: how many rounds of `fit` and `partial_fit` drew a wrong label. Divided by the number of these rounds,
            it is the progressive validation error.
    """

    classes_: AnyArray
    n_features_in_: int
    feature_names_in_: AnyArray
    learner_: AnyLearner
    rounds_: int
    mistakes_: int
    _setup: Setup
    _state: Any
    _rng: Generator

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
        self.algorithm, self.hyperparameters = algorithm, hyperparameters
        self.norm, self.norm_bound, self.intercept = norm, norm_bound, intercept
        self.random_state = random_state

    # --- learning

    def fit(self, X: object, y: object) -> Self:
        """Forget everything, then learn from rows in order, as `partial_fit` with the classes of `y`."""
        table = read_table(X)
        labels = read_labels("y", y, table.contexts.n)
        classes = sorted_classes("y", labels)
        return self._simulate(self._new(table, classes), table, classes, numbered("y", labels, classes))

    def partial_fit(self, X: object, y: object, classes: object = None) -> Self:
        """Simulate bandit feedback for rows X (n, d) with true labels y (n,), in order.

        Splitting the rows over several calls changes nothing. X is a list of rows, an array, a data frame or a sparse
        matrix; labels are strings, integers or booleans. The first call needs all `classes`. Raises `ValueError` if an
        argument or parameter is invalid.
        """
        table = read_table(X)
        labels = read_labels("y", y, table.contexts.n)
        known = self._classes(classes)
        truths = numbered("y", labels, known)
        return self._simulate(self._fitting(table, known), table, known, truths)

    def partial_fit_logged(
        self,
        X: object,
        labels: object,
        propensities: object,
        rewards: object,
        classes: object = None,
        true_labels: object = None,
    ) -> Self:
        """Learn from rounds that another policy or process answered, as if the learner had just answered them.

        Labels (n,) were drawn with propensities (n,) in (0, 1]. Rewards (n,) state whether each label was right, or are
        from 0 to 1 if the learner accepts fractions. The first call needs all `classes`. True labels (n,) are for
        full-information learners. Raises `ValueError` if an argument or parameter is invalid.
        """
        table, known = read_table(X), self._classes(classes)
        n = table.contexts.n
        answered = numbered("labels", read_labels("labels", labels, n), known)
        columns = read_propensities(propensities, n), read_rewards("rewards", rewards, n)
        truths = self._truths(true_labels, n, known)
        setup = self._fitting(table, known)
        check_feedback(setup.learner, columns[1], truths)
        contexts = setup.prepared(table.contexts)
        self._use(setup, table, known)
        rounds = rounds_of(contexts, answered, *columns, truths, np.empty((n, 0)), self._rng.random(n))
        return self._learnt(fold_logged(self.learner_, self._state, rounds), n)

    def sample(self, X: object) -> Choices:
        """Draw a label for each row, to pass to `update` with its feedback. Raises `ValueError` or `NotFittedError`."""
        contexts = self._contexts(X)
        decisions = self.learner_.decide(self._state, contexts)
        places, propensities, residual = draw(decisions.distributions, self._rng.random(contexts.n))
        return Choices(self.classes_[places], propensities, decisions.evidence, residual)

    def update(
        self, X: object, choices: Choices, correct: object = None, rewards: object = None, true_labels: object = None
    ) -> Self:
        """Learn from the feedback on labels that `sample` drew for X (n, d), at any later time and in any order.

        Pass `correct` (n,), or `rewards` (n,) from 0 to 1 if the learner accepts them; or `true_labels` (n,), alone or
        in addition. Raises `NotFittedError` if there are no classes yet; `ValueError` if an argument is invalid.
        """
        contexts = self._contexts(X)
        n, known = contexts.n, self.classes_
        if not isinstance(choices, Choices):
            raise ValueError(f"choices: must be what `sample` returned, not {type(choices).__name__}")
        answered = numbered("choices.labels", read_labels("choices.labels", choices.labels, n), known)
        truths = self._truths(true_labels, n, known)
        if (correct is None) == (rewards is None) and (correct is not None or truths is None):
            raise ValueError("feedback: pass correct or rewards, but not both; or true_labels, alone or in addition")
        if correct is None and rewards is None:
            paid = (answered == truths).astype(np.float64)
        else:
            paid = read_bits("correct", correct, n) if rewards is None else read_rewards("rewards", rewards, n)
        check_feedback(self.learner_, paid, truths)
        rounds = rounds_of(contexts, answered, choices.propensities, paid, truths, *choices[2:])
        return self._learnt(self.learner_.fold(self._state, rounds), n)

    # --- answers

    def predict_proba(self, X: object) -> FloatArray:
        """Return the distribution over `classes_` for each row, (n, K). Raises `ValueError` or `NotFittedError`."""
        contexts = self._contexts(X)
        return self.learner_.decide(self._state, contexts).distributions

    def predict(self, X: object) -> AnyArray:
        """Return the most probable class of each row, (n,). Raises the same errors as `predict_proba`."""
        places = np.argmax(self.predict_proba(X), axis=1)
        most_probable: AnyArray = self.classes_[places]
        return most_probable

    def score(self, X: object, y: object) -> float:
        """Return the share of rows whose most probable class is the one in y. Raises the errors of `predict_proba`."""
        answers = self.predict(X)
        truths = read_labels("y", y, len(answers))
        return float(np.mean(numbered("y", truths, self.classes_) == numbered("y", answers, self.classes_)))

    # --- state; in all methods, nothing changes if an argument is refused

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __setstate__(self, fields: dict[str, Any]) -> None:
        state = fields.get("_state")
        if state is not None:  # copy memory-mapped arrays, so that the learner can update them
            fields = fields | {"_state": type(state)(*(np.array(array) for array in state))}
        self.__dict__.update(fields)

    def _classes(self, given: object) -> AnyArray:
        if not self.__sklearn_is_fitted__():
            if given is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            return sorted_classes("classes", given)
        if given is not None:
            classes = sorted_classes("classes", given)
            if classes.tolist() != self.classes_.tolist():
                raise ValueError(
                    f"`classes={classes.tolist()}` is not the same as on last call to partial_fit, was: "
                    f"{self.classes_.tolist()}"
                )
        return self.classes_

    def _fitting(self, table: Table, classes: AnyArray) -> Setup:
        """Return the current setup, after a check of the table's columns; without a current one, return a new one."""
        if not self.__sklearn_is_fitted__():
            return self._new(table, classes)
        self._check_columns(table)
        return self._setup

    def _new(self, table: Table, classes: AnyArray) -> Setup:
        choice = Choice(self.algorithm, self.hyperparameters, self.norm, self.norm_bound, self.intercept)
        return set_up(choice, len(classes), table.n_features)

    def _use(self, setup: Setup, table: Table, classes: AnyArray) -> None:
        """Start over with a setup, unless it is the current one. Call this once all arguments are checked."""
        if self.__sklearn_is_fitted__() and setup is self._setup:
            return
        self._rng, self._setup, self._state = generator(self.random_state), setup, setup.learner.init()
        self.learner_, self.classes_, self.n_features_in_ = setup.learner, classes, table.n_features
        self.rounds_, self.mistakes_ = 0, 0
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)

    def _check_columns(self, table: Table) -> None:
        if table.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {table.n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        names = getattr(self, "feature_names_in_", None)
        if table.names is None or names is None or table.names == tuple(names):
            return
        strange = [name for name in table.names if name not in set(names)]
        problem = f"unknown: {', '.join(strange[:5])}" if strange else "they are in another order"
        raise ValueError(f"The feature names should match those that were passed during fit; {problem}")

    def _contexts(self, X: object) -> Contexts:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet; call partial_fit or fit first"
            )
        table = read_table(X)
        self._check_columns(table)
        return self._setup.prepared(table.contexts)

    def _truths(self, given: object, n: int, classes: AnyArray) -> IntArray | None:
        return None if given is None else numbered("true_labels", read_labels("true_labels", given, n), classes)

    def _simulate(self, setup: Setup, table: Table, classes: AnyArray, truths: IntArray) -> Self:
        contexts = setup.prepared(table.contexts)
        self._use(setup, table, classes)
        played = simulate(self.learner_, contexts, truths, self._rng.random(len(truths)), self._state)
        self.mistakes_ += int(played.mistakes.sum())
        return self._learnt(played.state, len(truths))

    def _learnt(self, state: State, n: int) -> Self:
        self._state = state
        self.rounds_ += n
        return self
