"""The errors of the service. `service.api.responses.problem_types` maps them to HTTP statuses.

WagerError
├── InvalidInputError             an invalid value in a request: see `service.input_errors`
├── NotFoundError
│   ├── ModelNotFoundError        no model of that name
│   ├── PredictionNotFoundError   no such prediction, or no longer stored
│   ├── ShadowNotFoundError       no shadow of that name
│   ├── PredictionExpiredError    feedback after the window
│   └── SnapshotNotFoundError     no kept snapshot of that id
├── ConflictError
│   ├── ModelExistsError          the name is taken
│   ├── SnapshotExistsError       the id names another kept snapshot
│   ├── SnapshotNeededError       the log has a change that needs the kept snapshot
│   ├── TooManySnapshotsError     a model that cannot keep another snapshot
│   ├── ShadowLagsError           a promotion of a shadow that lags too much
│   ├── PredictionConflictError   the id exists with another request
│   ├── FeedbackConflictError     the first feedback was different
│   ├── NotActivatedError         feedback before the activation
│   ├── HistoryLostError          a prediction that has seen changes which the store has lost
│   └── ImportPositionError       an import that leaves out rounds of its source
├── PreconditionError
│   ├── PreconditionRequiredError a change without If-Match
│   └── PreconditionFailedError   a change of an older definition
├── AccessError
│   ├── UnauthenticatedError      a missing or invalid API key
│   ├── WrongKeysError            too many wrong API keys from one address
│   ├── ForbiddenError            an API key that does not allow the request
│   ├── UnknownHostError          a request for a host name that is not the service's
│   ├── ForeignOriginError        a write of a web page of another origin
│   ├── SignatureError            a webhook without a valid signature
│   └── RateLimitedError          more requests than the API key allows
├── OverloadedError               too many requests in flight in a worker
├── OpenPredictionsFullError      a model whose open predictions have too many bytes
├── LearnerFailedError            a decision that cannot be stored
├── StoppingError                 a worker that is stopping
└── StoreError
    ├── StoreUnavailableError     no usable reply from the store; try again
    │   └── OtherHistoryError     the store has lost changes of the model that the worker has seen
    ├── StoreFullError            no memory, or no room on its disk, for a write
    ├── NewerVersionError         stored data of a newer version
    └── StoreCorruptError         stored data that cannot be read
        └── BrokenPredictionError a damaged record of a prediction
"""


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
    """An address has sent too many wrong API keys. Valid keys from it still work.

    Attributes:
        retry_after: seconds until a wrong key gets `UnauthenticatedError` again, at least 1.
    """

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
    """The API key has reached its limit of requests.

    Attributes:
        retry_after: seconds until the next request is allowed, at least 1.
    """

    def __init__(self, detail: str, field: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail, field)
        self.retry_after = retry_after


class OverloadedError(WagerError):
    """A worker has reached its limit of requests in flight."""


class OpenPredictionsFullError(WagerError):
    """The open predictions of the model would have more bytes than allowed. Feedback and their expiry make room.

    Attributes:
        retry_after: seconds after which there may be room.
    """

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
