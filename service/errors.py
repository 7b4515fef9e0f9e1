"""What can go wrong, in the words of the service. HTTP statuses are given in `service.api.responses.problems`.

WagerError
├── InvalidInputError             a value that the rules of the model or the service refuse
│   ├── ContextLengthError        not as many numbers as the model has features
│   ├── ContextIndexError         an index that the model does not have, or that is there twice
│   ├── NormExceededError         a context beyond the bound, where the model rejects it
│   ├── UnknownLabelError         a true label that the model does not have
│   ├── WrongTruthError           a truth that the model could not have answered
│   ├── NoDistributionError       a distribution asked of a model whose answers are too many to list
│   ├── InconsistentFeedbackError correct and the truth contradict each other
│   ├── LabelNeededError          the learner needs the true label
│   ├── UnknownAlgorithmError     no learner of that name
│   ├── HyperparameterError       a hyperparameter the learner refuses
│   │   └── UnknownHyperparameterError one that it does not have
│   ├── ModelTooLargeError        a state that would be too large
│   ├── ModelTooCostlyError       a decision or an update that would take too long
│   ├── BatchTooLargeError        more items than one request may have
│   └── IdentifierError           a prediction id that belongs to another model
├── NotFoundError
│   ├── ModelNotFoundError        no model of that name
│   ├── PredictionNotFoundError   never made, or forgotten since
│   └── PredictionExpiredError    its window had closed when the feedback came
├── ConflictError
│   ├── ModelExistsError          the name is taken
│   ├── PredictionConflictError   the id was used before, with another context
│   └── FeedbackConflictError     the first feedback said otherwise
├── AccessError
│   ├── UnauthenticatedError      no API key, or none that counts
│   ├── WrongKeysError            too many wrong API keys from one address
│   ├── ForbiddenError            the key is not for this
│   ├── SignatureError            a webhook that its sender did not sign
│   └── RateLimitedError          more requests than the key may make
├── OverloadedError               more requests at once than a worker takes
├── LearnerFailedError            a decision that could not be read again, and so is not stored
├── StoppingError                 a worker that is about to stop
└── StoreError
    ├── StoreUnavailableError     no answer, or not one that can be used; try again
    ├── StoreFullError            no memory left for a write
    ├── NewerVersionError         a newer version wrote what is stored
    └── StoreCorruptError         what is stored cannot be read
        └── BrokenPredictionError the record of a prediction is damaged
"""


class WagerError(Exception):
    """Root of everything the service raises on purpose.

    Attributes:
        detail: what happened, for a person.
        field: the path of the offending field in the request, such as `context.3`; None where none offends.
    """

    def __init__(self, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field


class InvalidInputError(WagerError):
    """A value that the rules of the model or the service refuse."""


class ContextLengthError(InvalidInputError):
    """A context does not have as many numbers as the model has features."""


class ContextIndexError(InvalidInputError):
    """A sparse context has an index that the model does not have, or one twice."""


class NormExceededError(InvalidInputError):
    """A context is beyond the bound of a model that rejects such."""


class UnknownLabelError(InvalidInputError):
    """A true label that the model does not have."""


class WrongTruthError(InvalidInputError):
    """A truth that the model could not have answered: of another kind, incomplete, or with a label twice."""


class NoDistributionError(InvalidInputError):
    """A distribution is asked of a model whose answers are too many to list."""


class InconsistentFeedbackError(InvalidInputError):
    """`correct` and the truth contradict each other."""


class LabelNeededError(InvalidInputError):
    """The learner needs the true label, and the feedback does not tell it."""


class UnknownAlgorithmError(InvalidInputError):
    """There is no learner of that name."""


class HyperparameterError(InvalidInputError):
    """A hyperparameter that the learner refuses."""


class UnknownHyperparameterError(HyperparameterError):
    """A hyperparameter that the learner does not have."""


class ModelTooLargeError(InvalidInputError):
    """The learner's state would be too large."""


class ModelTooCostlyError(InvalidInputError):
    """One decision or update of the learner would take too long."""


class BatchTooLargeError(InvalidInputError):
    """A batch has more items than one request may have."""


class IdentifierError(InvalidInputError):
    """A prediction id that belongs to another model, or a list of ids that does not fit."""


class NotFoundError(WagerError):
    """Something named does not exist."""


class ModelNotFoundError(NotFoundError):
    """There is no model of that name."""


class PredictionNotFoundError(NotFoundError):
    """The prediction was never made, or is forgotten."""


class PredictionExpiredError(NotFoundError):
    """The prediction's window had closed when the feedback came."""


class ConflictError(WagerError):
    """The request contradicts what is stored."""


class ModelExistsError(ConflictError):
    """The name is taken."""


class PredictionConflictError(ConflictError):
    """The prediction id was used before, with another context."""


class FeedbackConflictError(ConflictError):
    """The first feedback for this prediction said otherwise."""


class AccessError(WagerError):
    """Who asks may not have it, or not now."""


class UnauthenticatedError(AccessError):
    """There is no API key, or none that counts: unknown, expired and revoked ones are not told apart."""


class WrongKeysError(AccessError):
    """An address has sent too many wrong API keys; a right one is still let in.

    Attributes:
        retry_after: seconds until another wrong key is answered as such, at least 1.
    """

    def __init__(self, detail: str, field: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail, field)
        self.retry_after = retry_after


class ForbiddenError(AccessError):
    """The API key is good, and not for this."""


class SignatureError(AccessError):
    """A webhook is not signed with a secret of ours, or was signed too long ago."""


class RateLimitedError(AccessError):
    """The API key has made as many requests as it may for now.

    Attributes:
        retry_after: seconds until it may again, at least 1.
    """

    def __init__(self, detail: str, field: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail, field)
        self.retry_after = retry_after


class OverloadedError(WagerError):
    """A worker has as many requests in flight as it takes."""


class StoppingError(WagerError):
    """A worker has been told to stop; it still serves, and is not ready for more."""


class StoreError(WagerError):
    """The store could not do its part."""


class StoreUnavailableError(StoreError):
    """The store gave no answer, or is not ready; the request may be tried again."""


class StoreFullError(StoreError):
    """The store has no memory left for a write."""


class StoreCorruptError(StoreError):
    """What is stored cannot be read."""


class BrokenPredictionError(StoreCorruptError):
    """The record of a prediction is damaged: no feedback makes a round of it."""


class NewerVersionError(StoreError):
    """A newer version wrote what is stored: this one neither reads nor leaves out what it does not know."""


class LearnerFailedError(WagerError):
    """The learner decided what could not be read again: nothing is stored."""
