"""One error for each type of problem that the service reports, in the order of status and type.

`python -m tests.client.problem_classes`, in the service's repository, writes this file.
"""

from typing import TypeVar

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

T = TypeVar("T", bound=ProblemError)


def _kind(base: type[T], slug: str, title: str) -> type[T]:
    """Return the class of a type of problem."""
    name = "".join(word.capitalize() for word in slug.removesuffix("-error").split("-"))
    return type(f"{name}Error", (base,), {"__doc__": f"{title}.", "__module__": __name__}, slug=slug)


InvalidJsonError = _kind(BadRequestError, "invalid-json", "The body is not JSON")
RepeatedParameterError = _kind(BadRequestError, "repeated-parameter", "A query parameter is given more than once")
UnknownParameterError = _kind(BadRequestError, "unknown-parameter", "The operation does not have this query parameter")
InvalidApiKeyError = _kind(UnauthenticatedError, "invalid-api-key", "The API key is missing or invalid")
InvalidSignatureError = _kind(UnauthenticatedError, "invalid-signature", "The signature of the webhook is invalid")
ForeignOriginError = _kind(ForbiddenError, "foreign-origin", "A page of another origin may not write")
NotAllowedError = _kind(ForbiddenError, "not-allowed", "The API key does not allow this")
ModelNotFoundError = _kind(NotFoundError, "model-not-found", "The model does not exist")
NoSuchPathError = _kind(NotFoundError, "no-such-path", "The path does not exist")
PredictionExpiredError = _kind(NotFoundError, "prediction-expired", "The feedback window of the prediction has closed")
PredictionNotFoundError = _kind(
    NotFoundError, "prediction-not-found", "The prediction does not exist, or is no longer stored"
)
ShadowNotFoundError = _kind(NotFoundError, "shadow-not-found", "The model has no such shadow")
SnapshotNotFoundError = _kind(NotFoundError, "snapshot-not-found", "The model has no such snapshot")
MethodNotAllowedError = _kind(ProblemError, "method-not-allowed", "The path does not allow the method")
SlowBodyError = _kind(ProblemError, "slow-body", "The body did not arrive in time")
FeedbackConflictError = _kind(ConflictError, "feedback-conflict", "The prediction already has other feedback")
HistoryLostError = _kind(ConflictError, "history-lost", "The store has lost changes that the prediction has seen")
ImportPositionError = _kind(ConflictError, "import-position", "Rounds of the source before these are missing")
ModelExistsError = _kind(ConflictError, "model-exists", "A model with this name already exists")
NotActivatedError = _kind(ConflictError, "not-activated", "The prediction is not activated")
PredictionConflictError = _kind(
    ConflictError, "prediction-conflict", "The prediction id is already in use for a different request"
)
ShadowLagsError = _kind(ConflictError, "shadow-lags", "The shadow lags too much to be promoted")
SnapshotExistsError = _kind(ConflictError, "snapshot-exists", "The id names another snapshot")
SnapshotNeededError = _kind(ConflictError, "snapshot-needed", "A change in the log needs the snapshot")
TooManySnapshotsError = _kind(ConflictError, "too-many-snapshots", "The model cannot keep another snapshot")
PreconditionFailedError = _kind(PreconditionError, "precondition-failed", "The model has changed")
BodyTooLargeError = _kind(ProblemError, "body-too-large", "The body is too large")
UnsupportedMediaTypeError = _kind(
    ProblemError, "unsupported-media-type", "The Content-Type is not what the operation reads"
)
UnknownHostError = _kind(ProblemError, "unknown-host", "The service does not have this host name")
ActionsNotAllowedError = _kind(InvalidInputError, "actions-not-allowed", "The model has labels")
BaselineNeededError = _kind(InvalidInputError, "baseline-needed", "The holdout of the model needs the baseline")
BatchTooLargeError = _kind(InvalidInputError, "batch-too-large", "The batch has too many items")
ClosingPolicyError = _kind(
    InvalidInputError, "closing-policy", "The policies for expired predictions contradict each other or the learner"
)
DuplicateActionsError = _kind(InvalidInputError, "duplicate-actions", "Two actions of the request have the same id")
DuplicateLabelsError = _kind(InvalidInputError, "duplicate-labels", "A list names a label or an action twice")
EligibleUnsupportedError = _kind(
    InvalidInputError, "eligible-unsupported", "Requests to this model cannot set eligible, baseline or policy"
)
InconsistentFeedbackError = _kind(InvalidInputError, "inconsistent-feedback", "The feedback contradicts itself")
InterceptNotAllowedError = _kind(InvalidInputError, "intercept-not-allowed", "The learner does not allow an intercept")
InvalidFeatureNameError = _kind(InvalidInputError, "invalid-feature-name", "The name of a feature is not allowed")
InvalidFeaturesError = _kind(InvalidInputError, "invalid-features", "The features contradict each other or the learner")
InvalidHyperparameterError = _kind(InvalidInputError, "invalid-hyperparameter", "A hyperparameter is invalid")
InvalidIdentifierError = _kind(InvalidInputError, "invalid-identifier", "The prediction ids do not match the request")
InvalidModelFileError = _kind(InvalidInputError, "invalid-model-file", "The file is not an intact file of a model")
InvalidNameError = _kind(InvalidInputError, "invalid-name", "A name or an id is malformed")
InvalidRequestError = _kind(InvalidInputError, "invalid-request", "The request is invalid")
LabelNeededError = _kind(InvalidInputError, "label-needed", "The learner needs the true label")
LabelRetiredError = _kind(InvalidInputError, "label-retired", "The model has retired the label")
LabelsFixedError = _kind(InvalidInputError, "labels-fixed", "The labels of the learner cannot change")
LabelsOrActionsError = _kind(InvalidInputError, "labels-or-actions", "A model needs either labels or actions")
LearnerCannotShadowError = _kind(InvalidInputError, "learner-cannot-shadow", "The learner cannot shadow the model")
LearnerWithoutActionsError = _kind(InvalidInputError, "learner-without-actions", "The learner needs labels")
MissingFeatureError = _kind(InvalidInputError, "missing-feature", "The context lacks a required feature")
MissingFieldError = _kind(InvalidInputError, "missing-field", "A required field is missing")
ModelTooCostlyError = _kind(InvalidInputError, "model-too-costly", "One step of the learner would take too long")
ModelTooLargeError = _kind(InvalidInputError, "model-too-large", "The state of the learner would be too large")
NewerModelFileError = _kind(InvalidInputError, "newer-model-file", "A newer version wrote the file")
NoActionsError = _kind(InvalidInputError, "no-actions", "There are no actions to choose from")
NoDistributionError = _kind(InvalidInputError, "no-distribution", "The distribution cannot be listed")
NormExceededError = _kind(InvalidInputError, "norm-exceeded", "The context exceeds the model's norm bound")
NotEvaluableError = _kind(InvalidInputError, "not-evaluable", "The answers of the model cannot be evaluated")
NotFiniteError = _kind(InvalidInputError, "not-finite", "A number is NaN or infinite")
OutOfRangeError = _kind(
    InvalidInputError, "out-of-range", "A number, or the length of a string or list, is out of range"
)
RewardNotAcceptedError = _kind(InvalidInputError, "reward-not-accepted", "The learner accepts no rewards")
RewardNotAloneError = _kind(
    InvalidInputError, "reward-not-alone", "A reward cannot be sent together with correct or a true answer"
)
TooFewChoicesError = _kind(InvalidInputError, "too-few-choices", "There are fewer choices than slots")
TooFewLabelsError = _kind(InvalidInputError, "too-few-labels", "A model needs at least two labels")
TooManyActionsError = _kind(InvalidInputError, "too-many-actions", "There are too many actions")
TooManyChangesError = _kind(InvalidInputError, "too-many-changes", "The model has reached the limit of changes")
TooManyFeaturesError = _kind(InvalidInputError, "too-many-features", "There are too many features")
TooManyShadowsError = _kind(InvalidInputError, "too-many-shadows", "The model has reached the limit of shadows")
TopTooLargeError = _kind(InvalidInputError, "top-too-large", "The slots need too many bytes")
TopUnsupportedError = _kind(InvalidInputError, "top-unsupported", "The answers of the model have no slots")
UnknownActionError = _kind(InvalidInputError, "unknown-action", "The request has no such action")
UnknownAlgorithmError = _kind(InvalidInputError, "unknown-algorithm", "The algorithm does not exist")
UnknownChoiceError = _kind(InvalidInputError, "unknown-choice", "The field does not allow this value")
UnknownFeatureError = _kind(InvalidInputError, "unknown-feature", "The model has no such feature")
UnknownFieldError = _kind(InvalidInputError, "unknown-field", "The body has an unknown field")
UnknownLabelError = _kind(InvalidInputError, "unknown-label", "The model has no such label")
UnknownNamespaceError = _kind(
    InvalidInputError, "unknown-namespace", "An interaction names a namespace that cannot exist"
)
WrongContextIndexError = _kind(
    InvalidInputError, "wrong-context-index", "An index of the context does not fit the model"
)
WrongContextLengthError = _kind(InvalidInputError, "wrong-context-length", "The context does not fit the model")
WrongFeatureTypeError = _kind(InvalidInputError, "wrong-feature-type", "The value of a feature has the wrong type")
WrongFeatureValueError = _kind(InvalidInputError, "wrong-feature-value", "The feature does not allow this value")
WrongModeError = _kind(InvalidInputError, "wrong-mode", "The mode of the model does not allow the request")
WrongTruthError = _kind(InvalidInputError, "wrong-truth", "The true answer is not one that this model could give")
WrongTypeError = _kind(InvalidInputError, "wrong-type", "A value has the wrong JSON type")
PreconditionRequiredError = _kind(PreconditionError, "precondition-required", "The request lacks the header If-Match")
ComputeSpentError = _kind(TooManyRequestsError, "compute-spent", "The API key has used its processor time")
OpenBytesSpentError = _kind(
    TooManyRequestsError, "open-bytes-spent", "The open predictions of the API key's models have too many bytes"
)
OpenPredictionsFullError = _kind(
    TooManyRequestsError, "open-predictions-full", "The open predictions of the model have too many bytes"
)
RateLimitedError = _kind(TooManyRequestsError, "rate-limited", "The API key has made too many requests")
TooManyWrongKeysError = _kind(
    TooManyRequestsError, "too-many-wrong-keys", "This address has sent too many wrong API keys"
)
InternalError = _kind(ServerError, "internal-error", "The service failed unexpectedly")
LearnerFailedError = _kind(ServerError, "learner-failed", "The learner made an invalid decision")
StoreCorruptError = _kind(ServerError, "store-corrupt", "Stored data cannot be read")
AboutToStopError = _kind(UnavailableError, "about-to-stop", "This worker is stopping")
LearnerNotReadyError = _kind(UnavailableError, "learner-not-ready", "The learner is not compiled yet")
NewerVersionError = _kind(UnavailableError, "newer-version", "A newer version wrote the stored data")
StoreUnavailableError = _kind(UnavailableError, "store-unavailable", "The store is unavailable")
TooBusyError = _kind(UnavailableError, "too-busy", "The worker has reached its limit of requests")
StoreFullError = _kind(ServerError, "store-full", "The store has no room for a write")
TooManyModelsError = _kind(ServerError, "too-many-models", "The API key allows no further models")
