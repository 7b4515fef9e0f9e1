"""Every kind of problem that the service may answer: its status, its stable name, its title."""

from typing import NamedTuple

from service import errors


class Kind(NamedTuple):
    """What is fixed about a problem."""

    status: int
    slug: str
    title: str


INVALID_REQUEST = Kind(422, "invalid-request", "The request is not valid")
INVALID_JSON = Kind(400, "invalid-json", "The body is not JSON")
BODY_TOO_LARGE = Kind(413, "body-too-large", "The body is too large")
UNSUPPORTED_MEDIA_TYPE = Kind(415, "unsupported-media-type", "The body is not said to be application/json")
WRONG_TYPE = Kind(422, "wrong-type", "A value is of another JSON type than its field")
OUT_OF_RANGE = Kind(422, "out-of-range", "A number is too small or too large, or a text or list too short or too long")
INVALID_HYPERPARAMETER = Kind(422, "invalid-hyperparameter", "The learner refuses a hyperparameter")
STORE_CORRUPT = Kind(500, "store-corrupt", "What is stored cannot be read")
INTERNAL_ERROR = Kind(500, "internal-error", "Something is wrong with the service")

OF_ERROR: dict[type[errors.WagerError], Kind] = {
    errors.InvalidInputError: INVALID_REQUEST,
    errors.ContextLengthError: Kind(422, "wrong-context-length", "The context does not fit the model"),
    errors.ContextIndexError: Kind(422, "wrong-context-index", "An index of the context does not fit the model"),
    errors.NormExceededError: Kind(422, "norm-exceeded", "The context is beyond the model's bound"),
    errors.UnknownLabelError: Kind(422, "unknown-label", "The model has no such label"),
    errors.WrongTruthError: Kind(422, "wrong-truth", "The truth is no answer of this model"),
    errors.NoDistributionError: Kind(422, "no-distribution", "The model's answers are too many to list"),
    errors.InconsistentFeedbackError: Kind(422, "inconsistent-feedback", "The feedback contradicts itself"),
    errors.LabelNeededError: Kind(422, "label-needed", "The learner needs the true label"),
    errors.UnknownAlgorithmError: Kind(422, "unknown-algorithm", "There is no such learner"),
    errors.HyperparameterError: INVALID_HYPERPARAMETER,
    errors.UnknownHyperparameterError: INVALID_HYPERPARAMETER,
    errors.ModelTooLargeError: Kind(422, "model-too-large", "The learner's state would be too large"),
    errors.ModelTooCostlyError: Kind(422, "model-too-costly", "One step of the learner would take too long"),
    errors.BatchTooLargeError: Kind(422, "batch-too-large", "Too many items in one request"),
    errors.IdentifierError: Kind(422, "invalid-identifier", "The prediction id does not fit"),
    errors.ModelNotFoundError: Kind(404, "model-not-found", "There is no such model"),
    errors.PredictionNotFoundError: Kind(404, "prediction-not-found", "The prediction was never made, or is forgotten"),
    # Not 410: a sender of webhooks takes that as a wish to be left alone for ever.
    errors.PredictionExpiredError: Kind(404, "prediction-expired", "The prediction's window has closed"),
    errors.ModelExistsError: Kind(409, "model-exists", "The name is taken"),
    errors.PredictionConflictError: Kind(409, "prediction-conflict", "The id was used with another context"),
    errors.FeedbackConflictError: Kind(409, "feedback-conflict", "Other feedback is on record"),
    errors.UnauthenticatedError: Kind(401, "invalid-api-key", "There is no API key, or none that counts"),
    errors.SignatureError: Kind(401, "invalid-signature", "The webhook is not signed as it should be"),
    errors.ForbiddenError: Kind(403, "not-allowed", "The API key is not for this"),
    errors.RateLimitedError: Kind(429, "rate-limited", "The API key has made too many requests"),
    errors.WrongKeysError: Kind(429, "too-many-wrong-keys", "Too many wrong API keys came from this address"),
    errors.OverloadedError: Kind(503, "too-busy", "The service has as many requests as it takes"),
    errors.StoppingError: Kind(503, "about-to-stop", "This worker is about to stop"),
    errors.StoreUnavailableError: Kind(503, "store-unavailable", "The store does not answer"),
    errors.NewerVersionError: Kind(503, "newer-version", "A newer version wrote what is stored"),
    errors.LearnerFailedError: Kind(500, "learner-failed", "The learner decided the impossible"),
    errors.StoreFullError: Kind(507, "store-full", "The store has no memory left"),
    errors.StoreCorruptError: STORE_CORRUPT,
    errors.BrokenPredictionError: STORE_CORRUPT,
}

OF_HTTP: dict[int, Kind] = {
    # The one 400 that FastAPI raises: a body that Python's parser gives up on, as when nested too deeply.
    400: INVALID_JSON,
    404: Kind(404, "no-such-path", "There is nothing at this path"),
    405: Kind(405, "method-not-allowed", "The path knows no such method"),
    408: Kind(408, "slow-body", "The body did not arrive in time"),
    413: BODY_TOO_LARGE,
    415: UNSUPPORTED_MEDIA_TYPE,
}

_MISSING_FIELD = Kind(422, "missing-field", "A required field is not there")
_UNKNOWN_CHOICE = Kind(422, "unknown-choice", "Not one of the values that the field may have")
_INVALID_NAME = Kind(422, "invalid-name", "A name or an id has characters, or a length, it cannot have")
_OF_VALIDATION: dict[str, Kind] = {
    "missing": _MISSING_FIELD,
    "union_tag_not_found": _MISSING_FIELD,
    "literal_error": _UNKNOWN_CHOICE,
    "union_tag_invalid": _UNKNOWN_CHOICE,
    "finite_number": Kind(422, "not-finite", "A number is NaN or infinite"),
    "extra_forbidden": Kind(422, "unknown-field", "There is a field that the body does not have"),
    "string_pattern_mismatch": _INVALID_NAME,
    "reserved_id": _INVALID_NAME,
    "duplicate_labels": Kind(422, "duplicate-labels", "A label is there twice"),
    "too_few_labels": Kind(422, "too-few-labels", "A model needs at least two labels"),
}
OF_QUERY: dict[str, Kind] = {
    "unknown_parameter": Kind(400, "unknown-parameter", "The operation does not have this query parameter"),
    "repeated_parameter": Kind(400, "repeated-parameter", "A query parameter is given more than once"),
}
_RANGES = ("greater_than", "less_than", "too_short", "too_long", "string_too_short", "string_too_long")


def of_validation(error_type: str) -> Kind:
    """The kind of one of pydantic's types of error."""
    if error_type.endswith(("_type", "_parsing")):
        return WRONG_TYPE
    if error_type.startswith(_RANGES):
        return OUT_OF_RANGE
    return (_OF_VALIDATION | OF_QUERY).get(error_type, INVALID_REQUEST)


def every_kind() -> list[Kind]:
    """All kinds, by status and name."""
    others = {INVALID_JSON, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, WRONG_TYPE, OUT_OF_RANGE, INTERNAL_ERROR}
    return sorted(others.union(OF_ERROR.values(), OF_HTTP.values(), _OF_VALIDATION.values(), OF_QUERY.values()))
