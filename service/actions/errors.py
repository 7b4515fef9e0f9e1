"""The errors that only models with actions raise."""

from service.input_errors import InvalidInputError


class LabelsOrActionsError(InvalidInputError):
    """A new model has neither labels nor actions, or both."""


class ActionLearnerError(InvalidInputError):
    """The learner of a new model with actions needs labels."""


class ActionsMissingError(InvalidInputError):
    """A request has no actions, and the model needs them."""


class ActionsNotAllowedError(InvalidInputError):
    """A request has actions, and the model has labels."""


class NoActionsError(InvalidInputError):
    """A request has an empty list of actions."""


class DuplicateActionError(InvalidInputError):
    """Two actions of a request have the same id."""


class TooManyActionsError(InvalidInputError):
    """A request has more actions than allowed."""


class UnknownActionError(InvalidInputError):
    """A request names an action that it does not bring."""


CREATION_ERRORS = (LabelsOrActionsError, ActionLearnerError)
"""Errors of the definition of a new model."""

READING_ERRORS = (
    ActionsMissingError,
    ActionsNotAllowedError,
    NoActionsError,
    DuplicateActionError,
    TooManyActionsError,
)
"""Errors of the actions of a request."""

REQUEST_ERRORS = (*READING_ERRORS, UnknownActionError)
"""Errors of a request for a prediction."""
