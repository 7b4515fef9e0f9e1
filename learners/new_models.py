"""What is refused to new models alone: a stored definition keeps its meaning, and its learner must still be built."""

from typing import Protocol, runtime_checkable

from learners.base import AnyLearner


@runtime_checkable
class Choosy(Protocol):
    """A learner that refuses more to new models than its constructor does."""

    def check_new(self) -> None:
        """Refuse hyperparameters that only models of older versions may have.

        Raises:
            pydantic.ValidationError: naming the hyperparameter to change.
        """


def check_new(learner: AnyLearner) -> None:
    """Refuse a learner that no new model may have.

    Raises:
        pydantic.ValidationError: naming the hyperparameter to change.
    """
    if isinstance(learner, Choosy):
        learner.check_new()
