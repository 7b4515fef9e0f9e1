"""The errors of the service. Each error with a slug is a problem type (RFC 9457), with a status and a title.

WagerError
├── NotFoundError      404
├── ConflictError      409
├── AccessError        401, 403, 421, 429, 507
├── StoreError         500, 503, 507
├── InvalidInputError  422
└── precondition, overload and learner errors
"""

from typing import ClassVar, TypeVar, cast


class WagerError(Exception):
    """The base of all errors that the service raises deliberately.

    The first line of the docstring of a subclass with a slug, without the period, is the title that clients get.

    Attributes:
        detail: human-readable description, without the field.
        field: the path of the invalid field in the request, such as `context.3`; None if no field is invalid.
        retry_after: seconds, at least 1, for the header `Retry-After`; None to omit it.
    """

    status: ClassVar[int]
    slug: ClassVar[str] = ""
    title: ClassVar[str]
    retry_after: int | None = None

    def __init_subclass__(cls, slug: str = "", status: int = 0) -> None:
        if status:
            cls.status = status
        if slug:
            cls.slug, cls.title = slug, (cls.__doc__ or "").partition("\n")[0].removesuffix(".")

    def __init__(self, detail: str, field: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.retry_after = retry_after or self.retry_after


_ErrorT = TypeVar("_ErrorT", bound=WagerError)


def _subclass(base: type[_ErrorT], name: str, slug: str, title: str) -> type[_ErrorT]:
    return cast(type[_ErrorT], type(name, (base,), {"__doc__": f"{title}.", "__module__": __name__}, slug=slug))


def _not_found(name: str, slug: str, title: str) -> type["NotFoundError"]:
    return _subclass(NotFoundError, name, slug, title)


def _conflict(name: str, slug: str, title: str) -> type["ConflictError"]:
    return _subclass(ConflictError, name, slug, title)


def _invalid(name: str, slug: str, title: str) -> type["InvalidInputError"]:
    return _subclass(InvalidInputError, name, slug, title)


class NotFoundError(WagerError, status=404):
    """What the request names, such as a model or a prediction, does not exist."""


class ModelNotFoundError(NotFoundError, slug="model-not-found"):
    """The model does not exist."""


class ShadowNotFoundError(NotFoundError, slug="shadow-not-found"):
    """The model has no such shadow."""


PredictionNotFoundError = _not_found(
    "PredictionNotFoundError", "prediction-not-found", "The prediction does not exist, or is no longer stored"
)
SnapshotNotFoundError = _not_found("SnapshotNotFoundError", "snapshot-not-found", "The model has no such snapshot")
# Not 410: senders of webhooks disable a webhook that answers 410.
PredictionExpiredError = _not_found(
    "PredictionExpiredError", "prediction-expired", "The feedback window of the prediction has closed"
)


class ConflictError(WagerError, status=409):
    """The request contradicts stored data."""


class FeedbackConflictError(ConflictError, slug="feedback-conflict"):
    """The prediction already has other feedback."""


class HistoryLostError(ConflictError, slug="history-lost"):
    """The store has lost changes that the prediction has seen."""


ModelExistsError = _conflict("ModelExistsError", "model-exists", "A model with this name already exists")
SnapshotExistsError = _conflict("SnapshotExistsError", "snapshot-exists", "The id names another snapshot")
SnapshotNeededError = _conflict("SnapshotNeededError", "snapshot-needed", "A change in the log needs the snapshot")
TooManySnapshotsError = _conflict(
    "TooManySnapshotsError", "too-many-snapshots", "The model cannot keep another snapshot"
)
ShadowLagsError = _conflict("ShadowLagsError", "shadow-lags", "The shadow lags too much to be promoted")
PredictionConflictError = _conflict(
    "PredictionConflictError", "prediction-conflict", "The prediction id is already in use for a different request"
)
NotActivatedError = _conflict("NotActivatedError", "not-activated", "The prediction is not activated")
ImportPositionError = _conflict(
    "ImportPositionError", "import-position", "Rounds of the source before these are missing"
)


class PreconditionRequiredError(WagerError, slug="precondition-required", status=428):
    """The request lacks the header If-Match."""


class PreconditionFailedError(WagerError, slug="precondition-failed", status=412):
    """The model has changed."""


class AccessError(WagerError):
    """The client is not allowed to send this request, or must wait before it sends it."""


class UnauthenticatedError(AccessError, slug="invalid-api-key", status=401):
    """The API key is missing or invalid."""


class WrongKeysError(AccessError, slug="too-many-wrong-keys", status=429):
    """This address has sent too many wrong API keys."""

    retry_after = 1


class ForbiddenError(AccessError, slug="not-allowed", status=403):
    """The API key does not allow this."""


class UnknownHostError(AccessError, slug="unknown-host", status=421):
    """The service does not have this host name."""


class ForeignOriginError(AccessError, slug="foreign-origin", status=403):
    """A page of another origin may not write."""


class SignatureError(AccessError, slug="invalid-signature", status=401):
    """The signature of the webhook is invalid."""


class BudgetError(AccessError):
    """The base of the errors of API keys that have used up a budget, which `budget` names."""

    budget = ""


class RateLimitedError(BudgetError, slug="rate-limited", status=429):
    """The API key has made too many requests."""

    budget = "requests"
    retry_after = 1


class ComputeSpentError(BudgetError, slug="compute-spent", status=429):
    """The API key has used its processor time."""

    budget = "compute_seconds"
    retry_after = 1


class OpenBytesSpentError(BudgetError, slug="open-bytes-spent", status=429):
    """The open predictions of the API key's models have too many bytes."""

    budget = "open_bytes"
    retry_after = 10


class TooManyModelsError(BudgetError, slug="too-many-models", status=507):
    """The API key allows no further models."""

    budget = "models"
    retry_after = 60  # a model may be deleted


class OverloadedError(WagerError, slug="too-busy", status=503):
    """The worker has reached its limit of requests."""

    retry_after = 1


class OpenPredictionsFullError(WagerError, slug="open-predictions-full", status=429):
    """The open predictions of the model have too many bytes.

    Feedback and expiry make room.
    """

    retry_after = 10


class StoppingError(WagerError, slug="about-to-stop", status=503):
    """This worker is stopping."""


class LearnerNotReadyError(WagerError, slug="learner-not-ready", status=503):
    """The learner is not compiled yet."""

    retry_after = 10


class LearnerFailedError(WagerError, slug="learner-failed", status=500):
    """The learner made an invalid decision."""


class StoreError(WagerError):
    """The base of the store's errors."""


class StoreUnavailableError(StoreError, slug="store-unavailable", status=503):
    """The store is unavailable."""

    retry_after = 1


class OtherHistoryError(StoreUnavailableError):
    """The store has lost changes of a model that the worker has seen, so the worker must read the model again."""


class StoreFullError(StoreError, slug="store-full", status=507):
    """The store has no room for a write."""

    retry_after = 1


class StoreCorruptError(StoreError, slug="store-corrupt", status=500):
    """Stored data cannot be read."""


class BrokenPredictionError(StoreCorruptError):
    """The record of a prediction is damaged, so it accepts no feedback."""


class NewerVersionError(StoreError, slug="newer-version", status=503):
    """A newer version wrote the stored data.

    This version might misread it; a worker of the newer version may answer the retry.
    """

    retry_after = 1


class InvalidInputError(WagerError, slug="invalid-request", status=422):
    """The request is invalid."""


class ModelFileError(InvalidInputError, slug="invalid-model-file"):
    """The file is not an intact file of a model."""


class NewerFileError(ModelFileError, slug="newer-model-file"):
    """A newer version wrote the file."""


class HyperparameterError(InvalidInputError, slug="invalid-hyperparameter"):
    """A hyperparameter is invalid."""


class UnknownHyperparameterError(HyperparameterError):
    """The learner does not have this hyperparameter."""


MissingFieldError = _invalid("MissingFieldError", "missing-field", "A required field is missing")
ContextLengthError = _invalid("ContextLengthError", "wrong-context-length", "The context does not fit the model")
ContextIndexError = _invalid(
    "ContextIndexError", "wrong-context-index", "An index of the context does not fit the model"
)
FeatureTypeError = _invalid("FeatureTypeError", "wrong-feature-type", "The value of a feature has the wrong type")
FeatureValueError = _invalid("FeatureValueError", "wrong-feature-value", "The feature does not allow this value")
NotFiniteError = _invalid("NotFiniteError", "not-finite", "A number is NaN or infinite")
FeatureNameError = _invalid("FeatureNameError", "invalid-feature-name", "The name of a feature is not allowed")
UnknownFeatureError = _invalid("UnknownFeatureError", "unknown-feature", "The model has no such feature")
MissingFeatureError = _invalid("MissingFeatureError", "missing-feature", "The context lacks a required feature")
TooManyFeaturesError = _invalid("TooManyFeaturesError", "too-many-features", "There are too many features")
NormExceededError = _invalid("NormExceededError", "norm-exceeded", "The context exceeds the model's norm bound")
UnknownLabelError = _invalid("UnknownLabelError", "unknown-label", "The model has no such label")
RetiredLabelError = _invalid("RetiredLabelError", "label-retired", "The model has retired the label")
DuplicateLabelsError = _invalid("DuplicateLabelsError", "duplicate-labels", "A list names a label or an action twice")
TooFewLabelsError = _invalid("TooFewLabelsError", "too-few-labels", "A model needs at least two labels")
LabelsFixedError = _invalid("LabelsFixedError", "labels-fixed", "The labels of the learner cannot change")
ModeError = _invalid("ModeError", "wrong-mode", "The mode of the model does not allow the request")
EligibleError = _invalid(
    "EligibleError", "eligible-unsupported", "Requests to this model cannot set eligible, baseline or policy"
)
BaselineNeededError = _invalid("BaselineNeededError", "baseline-needed", "The holdout of the model needs the baseline")
TooManyChangesError = _invalid("TooManyChangesError", "too-many-changes", "The model has reached the limit of changes")
TooManyShadowsError = _invalid("TooManyShadowsError", "too-many-shadows", "The model has reached the limit of shadows")
ShadowLearnerError = _invalid("ShadowLearnerError", "learner-cannot-shadow", "The learner cannot shadow the model")
WrongTruthError = _invalid("WrongTruthError", "wrong-truth", "The true answer is not one that this model could give")
NoDistributionError = _invalid("NoDistributionError", "no-distribution", "The distribution cannot be listed")
NotEvaluableError = _invalid("NotEvaluableError", "not-evaluable", "The answers of the model cannot be evaluated")
InconsistentFeedbackError = _invalid(
    "InconsistentFeedbackError", "inconsistent-feedback", "The feedback contradicts itself"
)
LabelNeededError = _invalid("LabelNeededError", "label-needed", "The learner needs the true label")
RewardNotAloneError = _invalid(
    "RewardNotAloneError", "reward-not-alone", "A reward cannot be sent together with correct or a true answer"
)
RewardNotAcceptedError = _invalid("RewardNotAcceptedError", "reward-not-accepted", "The learner accepts no rewards")
ClosingPolicyError = _invalid(
    "ClosingPolicyError", "closing-policy", "The policies for expired predictions contradict each other or the learner"
)
UnknownAlgorithmError = _invalid("UnknownAlgorithmError", "unknown-algorithm", "The algorithm does not exist")
FeaturesError = _invalid("FeaturesError", "invalid-features", "The features contradict each other or the learner")
NamespaceError = _invalid("NamespaceError", "unknown-namespace", "An interaction names a namespace that cannot exist")
InterceptError = _invalid("InterceptError", "intercept-not-allowed", "The learner does not allow an intercept")
ModelTooLargeError = _invalid("ModelTooLargeError", "model-too-large", "The state of the learner would be too large")
ModelTooCostlyError = _invalid("ModelTooCostlyError", "model-too-costly", "One step of the learner would take too long")
BatchTooLargeError = _invalid("BatchTooLargeError", "batch-too-large", "The batch has too many items")
IdentifierError = _invalid("IdentifierError", "invalid-identifier", "The prediction ids do not match the request")
LabelsOrActionsError = _invalid("LabelsOrActionsError", "labels-or-actions", "A model needs either labels or actions")
ActionLearnerError = _invalid("ActionLearnerError", "learner-without-actions", "The learner needs labels")
ActionsNotAllowedError = _invalid("ActionsNotAllowedError", "actions-not-allowed", "The model has labels")
NoActionsError = _invalid("NoActionsError", "no-actions", "There are no actions to choose from")
DuplicateActionError = _invalid(
    "DuplicateActionError", "duplicate-actions", "Two actions of the request have the same id"
)
TooManyActionsError = _invalid("TooManyActionsError", "too-many-actions", "There are too many actions")
UnknownActionError = _invalid("UnknownActionError", "unknown-action", "The request has no such action")
TopUnsupportedError = _invalid("TopUnsupportedError", "top-unsupported", "The answers of the model have no slots")
TooFewChoicesError = _invalid("TooFewChoicesError", "too-few-choices", "There are fewer choices than slots")
TopTooLargeError = _invalid("TopTooLargeError", "top-too-large", "The slots need too many bytes")


CONTEXT_ERRORS = (
    *(ContextLengthError, ContextIndexError, FeatureTypeError, FeatureValueError, NotFiniteError, FeatureNameError),
    *(UnknownFeatureError, MissingFeatureError, TooManyFeaturesError, NormExceededError),
)
"""Errors of a context that does not fit the features of its model."""

ACTIONS_ERRORS = (MissingFieldError, ActionsNotAllowedError, NoActionsError, DuplicateActionError, TooManyActionsError)
"""Errors of the actions of a request."""

REQUEST_ERRORS = (
    *(*CONTEXT_ERRORS, *ACTIONS_ERRORS, UnknownActionError, UnknownLabelError, RetiredLabelError, EligibleError),
    *(BaselineNeededError, LearnerFailedError, LearnerNotReadyError),
)
"""Errors of a request for a prediction, and of an imported round."""

FIT_ERRORS = (ClosingPolicyError, RewardNotAcceptedError, ModelTooLargeError, ModelTooCostlyError)
"""Errors of policies that do not fit the learner, and of a learner that exceeds the limits."""

LEARNER_ERRORS = (UnknownAlgorithmError, HyperparameterError, FeaturesError, InterceptError, *FIT_ERRORS)
"""Errors of the choice of a learner."""

OUTCOME_ERRORS = (
    *(InconsistentFeedbackError, LabelNeededError, WrongTruthError),
    *(RewardNotAloneError, RewardNotAcceptedError),
)
"""Errors of the outcome of a round."""

READING_ERRORS = (ModelNotFoundError, NewerVersionError, StoreCorruptError)
"""Errors of reading a model."""

WRITING_ERRORS = (*READING_ERRORS, StoreFullError)
"""Errors of requests that write something for a model, such as a snapshot."""

CHANGE_ERRORS = (*WRITING_ERRORS, PreconditionRequiredError, PreconditionFailedError, TooManyChangesError)
"""Errors of requests that change a model's definition or state, which need If-Match."""
