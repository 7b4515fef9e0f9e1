"""A typed client for Wager, a self-hosted bandit prediction service."""

from wager_client import problem_types as problems
from wager_client.async_client import AsyncWager
from wager_client.client import Wager
from wager_client.errors import (
    BadRequestError,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    InvalidInputError,
    NoAnswerError,
    NotFoundError,
    PreconditionError,
    ProblemError,
    ServerError,
    SpoolInUseError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnavailableError,
    UnexpectedAnswerError,
    WagerError,
)
from wager_client.operations import FeedbackItem
from wager_client.outbox import Report
from wager_client.queues import AsyncFeedbackQueue, FeedbackQueue
from wager_client.results import (
    Activation,
    Decision,
    Explanation,
    Feedback,
    Health,
    Model,
    ModelSummary,
    Outcome,
    Prediction,
    Round,
    Slot,
)

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "AsyncFeedbackQueue",
    "AsyncWager",
    "BadRequestError",
    "ConflictError",
    "DeadlineError",
    "Decision",
    "Explanation",
    "Feedback",
    "FeedbackItem",
    "FeedbackQueue",
    "ForbiddenError",
    "Health",
    "InvalidInputError",
    "Model",
    "ModelSummary",
    "NoAnswerError",
    "NotFoundError",
    "Outcome",
    "PreconditionError",
    "Prediction",
    "ProblemError",
    "Report",
    "Round",
    "ServerError",
    "Slot",
    "SpoolInUseError",
    "TooManyRequestsError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Wager",
    "WagerError",
    "problems",
]
