"""What an estimator holds after its first rows: classes, the learner, its state and the random numbers."""

from typing import Any, Self, TypeVar

import numpy as np

from learners.base import AnyLearner, Contexts, IntArray
from learners.estimators.classes import AnyArray, numbered, read_labels, sorted_classes
from learners.estimators.inputs import Table, read_table
from learners.estimators.parameters import WithParameters
from learners.estimators.seeds import Generator, generator
from learners.estimators.setup import Choice, Setup, set_up
from learners.evaluation.simulation import simulate

SelfT = TypeVar("SelfT", bound="Fitted")


class NotFittedError(ValueError, AttributeError):
    """The estimator has no classes yet: call `partial_fit` or `fit` first."""


class Fitted(WithParameters):
    """The state of an estimator and the changes of it. Nothing changes if an argument is refused."""

    algorithm: Any
    hyperparameters: Any
    norm: Any
    norm_bound: Any
    intercept: Any
    random_state: Any
    classes_: AnyArray
    n_features_in_: int
    feature_names_in_: AnyArray
    learner_: AnyLearner
    rounds_: int
    mistakes_: int
    _setup: Setup
    _state: Any
    _rng: Generator

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there are classes and a state."""
        return hasattr(self, "classes_")

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """Take the fields of a copy. Arrays in mapped memory become ordinary ones, which the learner can update."""
        state = fields.get("_state")
        if state is not None:
            fields = fields | {"_state": type(state)(*(np.array(array) for array in state))}
        self.__dict__.update(fields)

    def _classes(self, given: Any) -> AnyArray:
        """Return the classes of an estimator that may be new."""
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

    def _prepare_for(self, table: Table, classes: AnyArray) -> None:
        """Check that a table fits, or begin with it."""
        if self.__sklearn_is_fitted__():
            self._check_columns(table)
        else:
            self._begin(table, classes)

    def _begin(self, table: Table, classes: AnyArray) -> None:
        """Build the learner and its first state."""
        choice = Choice(self.algorithm, self.hyperparameters, self.norm, self.norm_bound, self.intercept)
        setup, rng = set_up(choice, len(classes), table.n_features), generator(self.random_state)
        self._setup, self._rng, self._state = setup, rng, setup.learner.init()
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

    def _contexts(self, X: Any) -> Contexts:
        """Return rows as the learner sees them."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet; call partial_fit or fit first"
            )
        table = read_table(X)
        self._check_columns(table)
        return self._setup.prepared(table.contexts)

    def _truths(self, given: Any, n: int, classes: AnyArray) -> IntArray | None:
        """Return the places of true labels, if there are any."""
        return None if given is None else numbered("true_labels", read_labels("true_labels", given, n), classes)

    def _simulate(self, table: Table, truths: IntArray) -> Self:
        contexts = self._setup.prepared(table.contexts)
        played = simulate(self.learner_, contexts, truths, self._rng.random(len(truths)), self._state)
        self.mistakes_ += int(played.mistakes.sum())
        return self._learnt(played.state, len(truths))

    def _learnt(self, state: Any, n: int) -> Self:
        """Keep the state after n more rounds."""
        self._state = state
        self.rounds_ += n
        return self
