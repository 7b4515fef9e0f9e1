"""The learners of models with actions."""

from typing import Any

from learners.registry import ACTION_LEARNERS, RECOMMENDED
from service.actions.errors import ActionLearnerError
from service.wording.values import joined, quoted


def action_learner_class(algorithm: str | None) -> type[Any]:
    """Return the class of an algorithm for models with actions; the recommended one for None.

    Raises:
        ActionLearnerError: if the algorithm needs labels, or is unknown.
    """
    name = RECOMMENDED.algorithm if algorithm is None else algorithm
    if name not in ACTION_LEARNERS:
        known = joined(map(quoted, ACTION_LEARNERS), "or")
        detail = f"got {quoted(name)}; a model with actions needs {known}"
        raise ActionLearnerError(detail, "learner.algorithm")
    return ACTION_LEARNERS[name]
