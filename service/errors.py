"""The errors of the service. `service.api.responses.problem_types` maps them to HTTP statuses."""


class WagerError(Exception):
    """The base of all errors that the service raises on purpose.

    Attributes:
        detail: human-readable description, without the field.
        field: the path of the invalid field in the request, such as `context.3`; None if no field is invalid.
    """

    def __init__(self, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field


class NotFoundError(WagerError):
    """The named model, prediction or API key does not exist."""


class ModelNotFoundError(NotFoundError):
    """No model has that name."""


class PredictionNotFoundError(NotFoundError):
    """The prediction was never made, or is no longer stored."""


class ShadowNotFoundError(NotFoundError):
    """The model has no shadow of that name."""


class PredictionExpiredError(NotFoundError):
    """The feedback arrived after the prediction's window."""


class SnapshotNotFoundError(NotFoundError):
    """The model has no kept snapshot with that id."""


class ConflictError(WagerError):
    """The request contradicts stored data."""


class ModelExistsError(ConflictError):
    """A model with that name exists."""


class SnapshotExistsError(ConflictError):
    """The id names a kept snapshot with another note."""


class SnapshotNeededError(ConflictError):
    """The log has a change that needs the kept snapshot, so it cannot be deleted."""


class TooManySnapshotsError(ConflictError):
    """The model cannot keep another snapshot."""


class ShadowLagsError(ConflictError):
    """The shadow must fold too many rounds before it can be promoted; try again when it has."""


class PredictionConflictError(ConflictError):
    """The prediction id exists with another request."""


class FeedbackConflictError(ConflictError):
    """The first feedback for this prediction was different."""


class NotActivatedError(ConflictError):
    """The prediction must be activated before it takes feedback."""


class HistoryLostError(ConflictError):
    """The prediction has seen changes of its model that the store has lost, so its answer may mean another label."""


class ImportPositionError(ConflictError):
    """An import begins after rounds of its source that have not been imported."""


class PreconditionError(WagerError):
    """A change does not name the definition that it changes."""


class PreconditionRequiredError(PreconditionError):
    """A change lacks the header If-Match."""


class PreconditionFailedError(PreconditionError):
    """Another change came first."""


class AccessError(WagerError):
    """The client may not send this request, or not now."""


class UnauthenticatedError(AccessError):
    """The API key is missing, unknown, expired or revoked. Clients cannot distinguish the last three."""


class WrongKeysError(AccessError):
    """An address has sent too many wrong API keys. Valid keys from it still work."""

    def __init__(self, detail: str, field: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail, field)
        self.retry_after = retry_after


class ForbiddenError(AccessError):
    """The API key is valid but does not allow the request."""


class UnknownHostError(AccessError):
    """The host name of the request is not the service's: the page of another site may have sent it."""


class ForeignOriginError(AccessError):
    """A web page of another origin sent a request that writes."""


class SignatureError(AccessError):
    """A webhook has no signature with a known secret, or an old one."""


class RateLimitedError(AccessError):
    """The API key has reached its limit of requests."""

    def __init__(self, detail: str, field: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail, field)
        self.retry_after = retry_after


class OverloadedError(WagerError):
    """A worker has reached its limit of requests in flight."""


class OpenPredictionsFullError(WagerError):
    """The open predictions of the model would have more bytes than allowed. Feedback and their expiry make room."""

    retry_after = 10


class StoppingError(WagerError):
    """A worker is stopping. It finishes its requests but is not ready for more."""


class StoreError(WagerError):
    """The base of the store's errors."""


class StoreUnavailableError(StoreError):
    """The store does not answer, or is not ready. Clients may retry."""


class OtherHistoryError(StoreUnavailableError):
    """The store has lost changes of a model that the worker has seen. Read the model again, and repeat the call."""


class StoreFullError(StoreError):
    """The store has no memory, or no room on its disk, for a write."""


class StoreCorruptError(StoreError):
    """Stored data cannot be read."""


class BrokenPredictionError(StoreCorruptError):
    """The record of a prediction is damaged, so it accepts no feedback."""


class NewerVersionError(StoreError):
    """A newer version wrote stored data. This version does not read it, because it might misread it."""


class LearnerFailedError(WagerError):
    """The learner made an invalid decision. Nothing is stored."""


class InvalidInputError(WagerError):
    """An invalid value in a request."""


class MissingFieldError(InvalidInputError):
    """A request lacks a field that its other fields need, or all of several fields of which it needs one."""


class ContextMissingError(MissingFieldError):
    """A request has no context, and the model has features."""


class ContextLengthError(InvalidInputError):
    """A context has another kind or length than the model's features."""


class ContextIndexError(InvalidInputError):
    """A sparse context has an index out of range, or a repeated one."""


class FeatureTypeError(InvalidInputError):
    """The value of a named feature has the wrong type."""


class FeatureValueError(InvalidInputError):
    """The value of a named feature is not allowed."""


class NotFiniteError(InvalidInputError):
    """A named feature is NaN or infinite, or a number of a context too large for the precision of the features."""


class FeatureNameError(InvalidInputError):
    """The name of a feature is too long, too deep, empty, or given twice."""


class UnknownFeatureError(InvalidInputError):
    """A context has a feature that the model does not have."""


class MissingFeatureError(InvalidInputError):
    """A context lacks a feature that the model requires."""


class TooManyFeaturesError(InvalidInputError):
    """A context, or the actions of a request, have more features than allowed, products included."""


class NormExceededError(InvalidInputError):
    """A context exceeds the norm bound of a model that rejects such contexts."""


class UnknownLabelError(InvalidInputError):
    """A true label that the model does not have."""


class RetiredLabelError(InvalidInputError):
    """A label that the model has retired."""


class DuplicateLabelsError(InvalidInputError):
    """A new label that the model already has."""


class TooFewLabelsError(InvalidInputError):
    """A change would leave fewer than two labels."""


class LabelsFixedError(InvalidInputError):
    """The model's learner does not allow this change of its labels."""


class ModeError(InvalidInputError):
    """A request that the model's mode does not allow."""


class EligibleError(InvalidInputError):
    """A request names labels to answer, but the model answers several labels."""


class BaselineNeededError(InvalidInputError):
    """The request lacks the baseline, which the model's holdout answers."""


class TooManyChangesError(InvalidInputError):
    """The model has reached the limit of changes."""


class TooManyShadowsError(InvalidInputError):
    """The model has as many shadows as a model may have."""


class ShadowLearnerError(InvalidInputError):
    """The rounds of the model cannot serve the learner of a shadow, or the two cannot be compared."""


class WrongTruthError(InvalidInputError):
    """A truth that is not an answer of the model: of another kind, incomplete, or with a repeated label."""


class NoDistributionError(InvalidInputError):
    """A request for a distribution over too many answers to list, or of several slots."""


class NotEvaluableError(InvalidInputError):
    """The log of a model of sets or rankings says nothing about other policies."""


class InconsistentFeedbackError(InvalidInputError):
    """`correct` and the truth contradict each other."""


class LabelNeededError(InvalidInputError):
    """The feedback lacks the true label, which the learner needs."""


class RewardNotAloneError(InvalidInputError):
    """Feedback has a reward, and also `correct` or the truth."""


class RewardNotAcceptedError(InvalidInputError):
    """A reward for a model whose learner, or a prediction whose record, knows right and wrong answers only."""


class ClosingPolicyError(InvalidInputError):
    """A model's policies for expired predictions exclude each other, or do not suit its learner."""


class UnknownAlgorithmError(InvalidInputError):
    """No learner has that name."""


class FeaturesError(InvalidInputError):
    """The features of a new model contradict each other or the learner."""


class NamespaceError(InvalidInputError):
    """An interaction names a namespace that cannot exist."""


class InterceptError(InvalidInputError):
    """An intercept for a learner that allows none."""


class HyperparameterError(InvalidInputError):
    """A hyperparameter is out of range, or contradicts another one."""


class UnknownHyperparameterError(HyperparameterError):
    """A hyperparameter that the learner does not have."""


class ModelFileError(InvalidInputError):
    """A file to import is not an intact file of a model."""


class NewerFileError(ModelFileError):
    """A newer version wrote the file to import."""


class ModelTooLargeError(InvalidInputError):
    """The learner's state, or its evidence of a prediction, is too large."""


class ModelTooCostlyError(InvalidInputError):
    """One decision or update of the learner takes too long."""


class BatchTooLargeError(InvalidInputError):
    """A batch has more items than a request may have."""


class IdentifierError(InvalidInputError):
    """A prediction id of another model, or a list of ids of the wrong length."""


CONTEXT_ERRORS = (
    ContextLengthError,
    ContextIndexError,
    FeatureTypeError,
    FeatureValueError,
    NotFiniteError,
    FeatureNameError,
    UnknownFeatureError,
    MissingFeatureError,
    TooManyFeaturesError,
    NormExceededError,
)
"""Errors of a context that does not fit the features of its model."""


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


class TopUnsupportedError(InvalidInputError):
    """A request for several slots to a model that answers several labels."""


class TooFewChoicesError(InvalidInputError):
    """A request has more slots than eligible labels or actions."""


class TopTooLargeError(InvalidInputError):
    """The slots of a request need too many bytes in the store."""
