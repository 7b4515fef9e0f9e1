"""Errors of invalid input. They name the invalid field.

InvalidInputError
├── ContextLengthError        a context of another kind or length
├── ContextIndexError         an index out of range, or a repeated one
├── FeatureTypeError          a named feature whose value has the wrong type
├── FeatureValueError         a named feature whose value is not allowed
├── NotFiniteError            a named feature that is NaN or infinite, or a number too large for the model's precision
├── FeatureNameError          a name that is too long, too deep, empty, or given twice
├── UnknownFeatureError       a named feature that the model does not have
├── MissingFeatureError       a named feature that the model requires
├── TooManyFeaturesError      more named features than a context, or all actions of a request, may have
├── NormExceededError         a context beyond the model's norm bound
├── UnknownLabelError         a true label that the model does not have
├── RetiredLabelError         a label that the model has retired
├── DuplicateLabelsError      a label that the model already has
├── TooFewLabelsError         a change that leaves fewer than two labels
├── LabelsFixedError          a learner whose labels cannot change in this way
├── MissingFieldError         no field, or none of several, that is needed
│   └── ContextMissingError   no context, for a model with features
├── ModeError                 a policy for a model that does not draw from it
├── EligibleError             a model whose requests cannot name labels
├── BaselineNeededError       the holdout needs the client's own choice
├── TooManyChangesError       a model that cannot have another change
├── TooManyShadowsError       a model that cannot have another shadow
├── ShadowLearnerError        a learner that the rounds of the model cannot serve as a shadow
├── WrongTruthError           a truth that is not an answer of the model
├── NoDistributionError       a distribution over too many answers to list, or of several slots
├── NotEvaluableError         a model whose answers cannot be evaluated from its log
├── InconsistentFeedbackError correct and the truth contradict each other
├── LabelNeededError          the learner needs the true label
├── RewardNotAloneError       a reward together with correct or the truth
├── RewardNotAcceptedError    a reward for a learner of right and wrong answers
├── ClosingPolicyError        policies for expired predictions that exclude each other
├── UnknownAlgorithmError     no learner of that name
├── FeaturesError             features that contradict each other or the learner
├── NamespaceError            an interaction of a namespace that cannot exist
├── InterceptError            an intercept for a learner that allows none
├── HyperparameterError       an invalid hyperparameter
│   └── UnknownHyperparameterError a hyperparameter that the learner does not have
├── ModelFileError            a file that is not an intact one of a model
│   └── NewerFileError        a file of a newer version
├── ModelTooLargeError        a learner that needs too much memory
├── ModelTooCostlyError       a learner whose steps take too long
├── BatchTooLargeError        more items than a request may have
└── IdentifierError           an id of another model, or the wrong number of ids
"""

from service.errors import WagerError


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
