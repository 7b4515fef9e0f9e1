"""All kinds of problems: their statuses, stable names and titles."""

from typing import NamedTuple

from service import errors
from service import errors as actions
from service import errors as slots


class Kind(NamedTuple):
    """The constant parts of a problem."""

    status: int
    slug: str
    title: str


INVALID_REQUEST = Kind(422, "invalid-request", "The request is invalid")
INVALID_JSON = Kind(400, "invalid-json", "The body is not JSON")
BODY_TOO_LARGE = Kind(413, "body-too-large", "The body is too large")
UNSUPPORTED_MEDIA_TYPE = Kind(415, "unsupported-media-type", "The Content-Type is not what the operation reads")
WRONG_TYPE = Kind(422, "wrong-type", "A value has the wrong JSON type")
OUT_OF_RANGE = Kind(422, "out-of-range", "A number, or the length of a string or list, is out of range")
INVALID_HYPERPARAMETER = Kind(422, "invalid-hyperparameter", "A hyperparameter is invalid")
MISSING_FIELD = Kind(422, "missing-field", "A required field is missing")
STORE_UNAVAILABLE = Kind(503, "store-unavailable", "The store is unavailable")
STORE_CORRUPT = Kind(500, "store-corrupt", "Stored data cannot be read")
DUPLICATE_LABELS = Kind(422, "duplicate-labels", "A label, or the id of an action, occurs twice")
NOT_FINITE = Kind(422, "not-finite", "A number is NaN or infinite")
TOO_FEW_LABELS = Kind(422, "too-few-labels", "A model needs at least two labels")
INTERNAL_ERROR = Kind(500, "internal-error", "The service failed unexpectedly")

OF_ERROR: dict[type[errors.WagerError], Kind] = {
    errors.InvalidInputError: INVALID_REQUEST,
    errors.ContextLengthError: Kind(422, "wrong-context-length", "The context does not fit the model"),
    errors.ContextIndexError: Kind(422, "wrong-context-index", "An index of the context does not fit the model"),
    errors.ContextMissingError: MISSING_FIELD,
    errors.FeatureTypeError: Kind(422, "wrong-feature-type", "The value of a feature has the wrong type"),
    errors.FeatureValueError: Kind(422, "wrong-feature-value", "The feature does not allow this value"),
    errors.NotFiniteError: NOT_FINITE,
    errors.FeatureNameError: Kind(422, "invalid-feature-name", "The name of a feature is not allowed"),
    errors.UnknownFeatureError: Kind(422, "unknown-feature", "The model has no such feature"),
    errors.MissingFeatureError: Kind(422, "missing-feature", "The context lacks a required feature"),
    errors.TooManyFeaturesError: Kind(422, "too-many-features", "There are too many features"),
    errors.NormExceededError: Kind(422, "norm-exceeded", "The context exceeds the model's norm bound"),
    errors.UnknownLabelError: Kind(422, "unknown-label", "The model has no such label"),
    errors.RetiredLabelError: Kind(422, "label-retired", "The model has retired the label"),
    errors.DuplicateLabelsError: DUPLICATE_LABELS,
    errors.TooFewLabelsError: TOO_FEW_LABELS,
    errors.LabelsFixedError: Kind(422, "labels-fixed", "The labels of the learner cannot change"),
    errors.MissingFieldError: MISSING_FIELD,
    errors.ModeError: Kind(422, "wrong-mode", "The mode of the model does not allow the request"),
    errors.EligibleError: Kind(422, "eligible-unsupported", "The requests of the model cannot name labels"),
    errors.BaselineNeededError: Kind(422, "baseline-needed", "The holdout of the model needs the baseline"),
    errors.TooManyChangesError: Kind(422, "too-many-changes", "The model has reached the limit of changes"),
    errors.TooManyShadowsError: Kind(422, "too-many-shadows", "The model has reached the limit of shadows"),
    errors.ShadowLearnerError: Kind(422, "learner-cannot-shadow", "The learner cannot shadow the model"),
    errors.WrongTruthError: Kind(422, "wrong-truth", "The model cannot give the true answer"),
    errors.NoDistributionError: Kind(422, "no-distribution", "The distribution cannot be listed"),
    errors.NotEvaluableError: Kind(422, "not-evaluable", "The answers of the model cannot be evaluated"),
    errors.InconsistentFeedbackError: Kind(422, "inconsistent-feedback", "The feedback contradicts itself"),
    errors.LabelNeededError: Kind(422, "label-needed", "The learner needs the true label"),
    errors.RewardNotAloneError: Kind(422, "reward-not-alone", "A reward excludes correct and the true answer"),
    errors.RewardNotAcceptedError: Kind(422, "reward-not-accepted", "The learner accepts no rewards"),
    errors.ClosingPolicyError: Kind(422, "closing-policy", "Policies for expired predictions exclude each other"),
    errors.UnknownAlgorithmError: Kind(422, "unknown-algorithm", "The algorithm does not exist"),
    errors.FeaturesError: Kind(422, "invalid-features", "The features contradict each other or the learner"),
    errors.NamespaceError: Kind(422, "unknown-namespace", "An interaction names a namespace that cannot exist"),
    errors.InterceptError: Kind(422, "intercept-not-allowed", "The learner does not allow an intercept"),
    errors.HyperparameterError: INVALID_HYPERPARAMETER,
    errors.UnknownHyperparameterError: INVALID_HYPERPARAMETER,
    errors.ModelFileError: Kind(422, "invalid-model-file", "The file is not an intact file of a model"),
    errors.NewerFileError: Kind(422, "newer-model-file", "A newer version wrote the file"),
    errors.ModelTooLargeError: Kind(422, "model-too-large", "The state of the learner would be too large"),
    errors.ModelTooCostlyError: Kind(422, "model-too-costly", "One step of the learner would take too long"),
    errors.BatchTooLargeError: Kind(422, "batch-too-large", "The batch has too many items"),
    actions.LabelsOrActionsError: Kind(422, "labels-or-actions", "A model needs either labels or actions"),
    actions.ActionLearnerError: Kind(422, "learner-without-actions", "The learner needs labels"),
    actions.ActionsMissingError: MISSING_FIELD,
    actions.ActionsNotAllowedError: Kind(422, "actions-not-allowed", "The model has labels"),
    actions.NoActionsError: Kind(422, "no-actions", "There are no actions to choose from"),
    actions.DuplicateActionError: Kind(422, "duplicate-actions", "An action occurs twice"),
    actions.TooManyActionsError: Kind(422, "too-many-actions", "There are too many actions"),
    actions.UnknownActionError: Kind(422, "unknown-action", "The request has no such action"),
    slots.TopUnsupportedError: Kind(422, "top-unsupported", "The answers of the model have no slots"),
    slots.TooFewChoicesError: Kind(422, "too-few-choices", "There are fewer choices than slots"),
    slots.TopTooLargeError: Kind(422, "top-too-large", "The slots need too many bytes"),
    errors.IdentifierError: Kind(422, "invalid-identifier", "The prediction ids do not match the request"),
    errors.ModelNotFoundError: Kind(404, "model-not-found", "The model does not exist"),
    errors.PredictionNotFoundError: Kind(
        404, "prediction-not-found", "The prediction does not exist, or is no longer stored"
    ),
    errors.ShadowNotFoundError: Kind(404, "shadow-not-found", "The model has no such shadow"),
    # Not 410: senders of webhooks disable a webhook that answers 410.
    errors.PredictionExpiredError: Kind(404, "prediction-expired", "The feedback window of the prediction has closed"),
    errors.SnapshotNotFoundError: Kind(404, "snapshot-not-found", "The model has no such snapshot"),
    errors.SnapshotExistsError: Kind(409, "snapshot-exists", "The id names another snapshot"),
    errors.SnapshotNeededError: Kind(409, "snapshot-needed", "A change in the log needs the snapshot"),
    errors.TooManySnapshotsError: Kind(409, "too-many-snapshots", "The model cannot keep another snapshot"),
    errors.ShadowLagsError: Kind(409, "shadow-lags", "The shadow lags too much to be promoted"),
    errors.ModelExistsError: Kind(409, "model-exists", "A model with this name already exists"),
    errors.PredictionConflictError: Kind(409, "prediction-conflict", "The prediction id exists with another request"),
    errors.FeedbackConflictError: Kind(409, "feedback-conflict", "The prediction already has other feedback"),
    errors.ImportPositionError: Kind(409, "import-position", "Rounds of the source before these are missing"),
    errors.NotActivatedError: Kind(409, "not-activated", "The prediction is not activated"),
    errors.HistoryLostError: Kind(409, "history-lost", "The store has lost changes that the prediction has seen"),
    errors.PreconditionFailedError: Kind(412, "precondition-failed", "The model has changed"),
    errors.PreconditionRequiredError: Kind(428, "precondition-required", "The request lacks the header If-Match"),
    errors.UnauthenticatedError: Kind(401, "invalid-api-key", "The API key is missing or invalid"),
    errors.SignatureError: Kind(401, "invalid-signature", "The signature of the webhook is invalid"),
    errors.ForbiddenError: Kind(403, "not-allowed", "The API key does not allow this"),
    errors.ForeignOriginError: Kind(403, "foreign-origin", "A page of another origin may not write"),
    errors.UnknownHostError: Kind(421, "unknown-host", "The service does not have this host name"),
    errors.RateLimitedError: Kind(429, "rate-limited", "The API key has made too many requests"),
    errors.WrongKeysError: Kind(429, "too-many-wrong-keys", "This address has sent too many wrong API keys"),
    errors.OpenPredictionsFullError: Kind(
        429, "open-predictions-full", "The open predictions of the model have too many bytes"
    ),
    errors.OverloadedError: Kind(503, "too-busy", "The worker has reached its limit of requests"),
    errors.StoppingError: Kind(503, "about-to-stop", "This worker is stopping"),
    errors.StoreUnavailableError: STORE_UNAVAILABLE,
    errors.OtherHistoryError: STORE_UNAVAILABLE,
    errors.NewerVersionError: Kind(503, "newer-version", "A newer version wrote the stored data"),
    errors.LearnerFailedError: Kind(500, "learner-failed", "The learner made an invalid decision"),
    errors.StoreFullError: Kind(507, "store-full", "The store has no room for a write"),
    errors.StoreCorruptError: STORE_CORRUPT,
    errors.BrokenPredictionError: STORE_CORRUPT,
}

OF_HTTP: dict[int, Kind] = {
    # FastAPI raises 400 only if Python's parser fails without a syntax error, as on deep nesting.
    400: INVALID_JSON,
    404: Kind(404, "no-such-path", "The path does not exist"),
    405: Kind(405, "method-not-allowed", "The path does not allow the method"),
    408: Kind(408, "slow-body", "The body did not arrive in time"),
    413: BODY_TOO_LARGE,
    415: UNSUPPORTED_MEDIA_TYPE,
}

_UNKNOWN_CHOICE = Kind(422, "unknown-choice", "The field does not allow this value")
_INVALID_NAME = Kind(422, "invalid-name", "A name or an id is malformed")
_OF_VALIDATION: dict[str, Kind] = {
    "missing": MISSING_FIELD,
    "union_tag_not_found": MISSING_FIELD,
    "literal_error": _UNKNOWN_CHOICE,
    "union_tag_invalid": _UNKNOWN_CHOICE,
    "finite_number": NOT_FINITE,
    "extra_forbidden": Kind(422, "unknown-field", "The body has an unknown field"),
    "string_pattern_mismatch": _INVALID_NAME,
    "reserved_id": _INVALID_NAME,
    "duplicate_labels": DUPLICATE_LABELS,
    "too_few_labels": TOO_FEW_LABELS,
}
OF_QUERY: dict[str, Kind] = {
    "unknown_parameter": Kind(400, "unknown-parameter", "The operation does not have this query parameter"),
    "repeated_parameter": Kind(400, "repeated-parameter", "A query parameter is given more than once"),
}
_RANGES = ("greater_than", "less_than", "too_short", "too_long", "string_too_short", "string_too_long")


def of_validation(error_type: str) -> Kind:
    """Return the kind of an error type of pydantic or of the service."""
    if error_type.endswith(("_type", "_parsing")):
        return WRONG_TYPE
    if error_type.startswith(_RANGES):
        return OUT_OF_RANGE
    return (_OF_VALIDATION | OF_QUERY).get(error_type, INVALID_REQUEST)


def validation_slugs() -> list[str]:
    """Return the stable names of the kinds that validation gives instead of `invalid-request`, in order."""
    return sorted({kind.slug for kind in (*_OF_VALIDATION.values(), WRONG_TYPE, OUT_OF_RANGE)})


def every_kind() -> list[Kind]:
    """Return all kinds, ordered by status and name."""
    others = {INVALID_JSON, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, WRONG_TYPE, OUT_OF_RANGE, INTERNAL_ERROR}
    return sorted(others.union(OF_ERROR.values(), OF_HTTP.values(), _OF_VALIDATION.values(), OF_QUERY.values()))
