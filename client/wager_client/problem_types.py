"""One error for each type of problem that the service answers, in the order of status and type.

`python -m tests.client.problem_classes`, in the service's repository, writes this file.
"""

from wager_client.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
    ProblemError,
    ServerError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnavailableError,
)


class InvalidJsonError(BadRequestError, slug="invalid-json"):
    """The body is not JSON: 400."""


class RepeatedParameterError(BadRequestError, slug="repeated-parameter"):
    """A query parameter is given more than once: 400."""


class UnknownParameterError(BadRequestError, slug="unknown-parameter"):
    """The operation does not have this query parameter: 400."""


class InvalidApiKeyError(UnauthenticatedError, slug="invalid-api-key"):
    """The API key is missing or invalid: 401."""


class InvalidSignatureError(UnauthenticatedError, slug="invalid-signature"):
    """The signature of the webhook is invalid: 401."""


class ForeignOriginError(ForbiddenError, slug="foreign-origin"):
    """A page of another origin may not write: 403."""


class NotAllowedError(ForbiddenError, slug="not-allowed"):
    """The API key does not allow this: 403."""


class ModelNotFoundError(NotFoundError, slug="model-not-found"):
    """The model does not exist: 404."""


class NoSuchPathError(NotFoundError, slug="no-such-path"):
    """The path does not exist: 404."""


class PredictionExpiredError(NotFoundError, slug="prediction-expired"):
    """The feedback window of the prediction has closed: 404."""


class PredictionNotFoundError(NotFoundError, slug="prediction-not-found"):
    """The prediction does not exist, or is no longer stored: 404."""


class ShadowNotFoundError(NotFoundError, slug="shadow-not-found"):
    """The model has no such shadow: 404."""


class SnapshotNotFoundError(NotFoundError, slug="snapshot-not-found"):
    """The model has no such snapshot: 404."""


class MethodNotAllowedError(ProblemError, slug="method-not-allowed"):
    """The path does not allow the method: 405."""


class SlowBodyError(ProblemError, slug="slow-body"):
    """The body did not arrive in time: 408."""


class FeedbackConflictError(ConflictError, slug="feedback-conflict"):
    """The prediction already has other feedback: 409."""


class HistoryLostError(ConflictError, slug="history-lost"):
    """The store has lost changes that the prediction has seen: 409."""


class ImportPositionError(ConflictError, slug="import-position"):
    """Rounds of the source before these are missing: 409."""


class ModelExistsError(ConflictError, slug="model-exists"):
    """A model with this name already exists: 409."""


class NotActivatedError(ConflictError, slug="not-activated"):
    """The prediction is not activated: 409."""


class PredictionConflictError(ConflictError, slug="prediction-conflict"):
    """The prediction id exists with another request: 409."""


class ShadowLagsError(ConflictError, slug="shadow-lags"):
    """The shadow lags too much to be promoted: 409."""


class SnapshotExistsError(ConflictError, slug="snapshot-exists"):
    """The id names another snapshot: 409."""


class SnapshotNeededError(ConflictError, slug="snapshot-needed"):
    """A change in the log needs the snapshot: 409."""


class TooManySnapshotsError(ConflictError, slug="too-many-snapshots"):
    """The model cannot keep another snapshot: 409."""


class PreconditionFailedError(PreconditionError, slug="precondition-failed"):
    """The model has changed: 412."""


class BodyTooLargeError(ProblemError, slug="body-too-large"):
    """The body is too large: 413."""


class UnsupportedMediaTypeError(ProblemError, slug="unsupported-media-type"):
    """The Content-Type is not what the operation reads: 415."""


class UnknownHostError(ProblemError, slug="unknown-host"):
    """The service does not have this host name: 421."""


class ActionsNotAllowedError(InvalidInputError, slug="actions-not-allowed"):
    """The model has labels: 422."""


class BaselineNeededError(InvalidInputError, slug="baseline-needed"):
    """The holdout of the model needs the baseline: 422."""


class BatchTooLargeError(InvalidInputError, slug="batch-too-large"):
    """The batch has too many items: 422."""


class ClosingPolicyError(InvalidInputError, slug="closing-policy"):
    """Policies for expired predictions exclude each other: 422."""


class DuplicateActionsError(InvalidInputError, slug="duplicate-actions"):
    """An action occurs twice: 422."""


class DuplicateLabelsError(InvalidInputError, slug="duplicate-labels"):
    """A label, or the id of an action, occurs twice: 422."""


class EligibleUnsupportedError(InvalidInputError, slug="eligible-unsupported"):
    """The requests of the model cannot name labels: 422."""


class InconsistentFeedbackError(InvalidInputError, slug="inconsistent-feedback"):
    """The feedback contradicts itself: 422."""


class InterceptNotAllowedError(InvalidInputError, slug="intercept-not-allowed"):
    """The learner does not allow an intercept: 422."""


class InvalidFeatureNameError(InvalidInputError, slug="invalid-feature-name"):
    """The name of a feature is not allowed: 422."""


class InvalidFeaturesError(InvalidInputError, slug="invalid-features"):
    """The features contradict each other or the learner: 422."""


class InvalidHyperparameterError(InvalidInputError, slug="invalid-hyperparameter"):
    """A hyperparameter is invalid: 422."""


class InvalidIdentifierError(InvalidInputError, slug="invalid-identifier"):
    """The prediction ids do not match the request: 422."""


class InvalidModelFileError(InvalidInputError, slug="invalid-model-file"):
    """The file is not an intact file of a model: 422."""


class InvalidNameError(InvalidInputError, slug="invalid-name"):
    """A name or an id is malformed: 422."""


class InvalidRequestError(InvalidInputError, slug="invalid-request"):
    """The request is invalid: 422."""


class LabelNeededError(InvalidInputError, slug="label-needed"):
    """The learner needs the true label: 422."""


class LabelRetiredError(InvalidInputError, slug="label-retired"):
    """The model has retired the label: 422."""


class LabelsFixedError(InvalidInputError, slug="labels-fixed"):
    """The labels of the learner cannot change: 422."""


class LabelsOrActionsError(InvalidInputError, slug="labels-or-actions"):
    """A model needs either labels or actions: 422."""


class LearnerCannotShadowError(InvalidInputError, slug="learner-cannot-shadow"):
    """The learner cannot shadow the model: 422."""


class LearnerWithoutActionsError(InvalidInputError, slug="learner-without-actions"):
    """The learner needs labels: 422."""


class MissingFeatureError(InvalidInputError, slug="missing-feature"):
    """The context lacks a required feature: 422."""


class MissingFieldError(InvalidInputError, slug="missing-field"):
    """A required field is missing: 422."""


class ModelTooCostlyError(InvalidInputError, slug="model-too-costly"):
    """One step of the learner would take too long: 422."""


class ModelTooLargeError(InvalidInputError, slug="model-too-large"):
    """The state of the learner would be too large: 422."""


class NewerModelFileError(InvalidInputError, slug="newer-model-file"):
    """A newer version wrote the file: 422."""


class NoActionsError(InvalidInputError, slug="no-actions"):
    """There are no actions to choose from: 422."""


class NoDistributionError(InvalidInputError, slug="no-distribution"):
    """The distribution cannot be listed: 422."""


class NormExceededError(InvalidInputError, slug="norm-exceeded"):
    """The context exceeds the model's norm bound: 422."""


class NotEvaluableError(InvalidInputError, slug="not-evaluable"):
    """The answers of the model cannot be evaluated: 422."""


class NotFiniteError(InvalidInputError, slug="not-finite"):
    """A number is NaN or infinite: 422."""


class OutOfRangeError(InvalidInputError, slug="out-of-range"):
    """A number, or the length of a string or list, is out of range: 422."""


class RewardNotAcceptedError(InvalidInputError, slug="reward-not-accepted"):
    """The learner accepts no rewards: 422."""


class RewardNotAloneError(InvalidInputError, slug="reward-not-alone"):
    """A reward excludes correct and the true answer: 422."""


class TooFewChoicesError(InvalidInputError, slug="too-few-choices"):
    """There are fewer choices than slots: 422."""


class TooFewLabelsError(InvalidInputError, slug="too-few-labels"):
    """A model needs at least two labels: 422."""


class TooManyActionsError(InvalidInputError, slug="too-many-actions"):
    """There are too many actions: 422."""


class TooManyChangesError(InvalidInputError, slug="too-many-changes"):
    """The model has reached the limit of changes: 422."""


class TooManyFeaturesError(InvalidInputError, slug="too-many-features"):
    """There are too many features: 422."""


class TooManyShadowsError(InvalidInputError, slug="too-many-shadows"):
    """The model has reached the limit of shadows: 422."""


class TopTooLargeError(InvalidInputError, slug="top-too-large"):
    """The slots need too many bytes: 422."""


class TopUnsupportedError(InvalidInputError, slug="top-unsupported"):
    """The answers of the model have no slots: 422."""


class UnknownActionError(InvalidInputError, slug="unknown-action"):
    """The request has no such action: 422."""


class UnknownAlgorithmError(InvalidInputError, slug="unknown-algorithm"):
    """The algorithm does not exist: 422."""


class UnknownChoiceError(InvalidInputError, slug="unknown-choice"):
    """The field does not allow this value: 422."""


class UnknownFeatureError(InvalidInputError, slug="unknown-feature"):
    """The model has no such feature: 422."""


class UnknownFieldError(InvalidInputError, slug="unknown-field"):
    """The body has an unknown field: 422."""


class UnknownLabelError(InvalidInputError, slug="unknown-label"):
    """The model has no such label: 422."""


class UnknownNamespaceError(InvalidInputError, slug="unknown-namespace"):
    """An interaction names a namespace that cannot exist: 422."""


class WrongContextIndexError(InvalidInputError, slug="wrong-context-index"):
    """An index of the context does not fit the model: 422."""


class WrongContextLengthError(InvalidInputError, slug="wrong-context-length"):
    """The context does not fit the model: 422."""


class WrongFeatureTypeError(InvalidInputError, slug="wrong-feature-type"):
    """The value of a feature has the wrong type: 422."""


class WrongFeatureValueError(InvalidInputError, slug="wrong-feature-value"):
    """The feature does not allow this value: 422."""


class WrongModeError(InvalidInputError, slug="wrong-mode"):
    """The mode of the model does not allow the request: 422."""


class WrongTruthError(InvalidInputError, slug="wrong-truth"):
    """The model cannot give the true answer: 422."""


class WrongTypeError(InvalidInputError, slug="wrong-type"):
    """A value has the wrong JSON type: 422."""


class PreconditionRequiredError(PreconditionError, slug="precondition-required"):
    """The request lacks the header If-Match: 428."""


class OpenPredictionsFullError(TooManyRequestsError, slug="open-predictions-full"):
    """The open predictions of the model have too many bytes: 429."""


class RateLimitedError(TooManyRequestsError, slug="rate-limited"):
    """The API key has made too many requests: 429."""


class TooManyWrongKeysError(TooManyRequestsError, slug="too-many-wrong-keys"):
    """This address has sent too many wrong API keys: 429."""


class InternalError(ServerError, slug="internal-error"):
    """The service failed unexpectedly: 500."""


class LearnerFailedError(ServerError, slug="learner-failed"):
    """The learner made an invalid decision: 500."""


class StoreCorruptError(ServerError, slug="store-corrupt"):
    """Stored data cannot be read: 500."""


class AboutToStopError(UnavailableError, slug="about-to-stop"):
    """This worker is stopping: 503."""


class NewerVersionError(UnavailableError, slug="newer-version"):
    """A newer version wrote the stored data: 503."""


class StoreUnavailableError(UnavailableError, slug="store-unavailable"):
    """The store is unavailable: 503."""


class TooBusyError(UnavailableError, slug="too-busy"):
    """The worker has reached its limit of requests: 503."""


class StoreFullError(ServerError, slug="store-full"):
    """The store has no room for a write: 507."""
