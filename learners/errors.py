"""The errors that learners raise. Each is a `ValueError`; `learners.base` re-exports three of them."""


class LearnerError(ValueError):
    """The base class of the learners' errors.

    LearnerError
    ├── StateTooLargeError   the state would need more memory than allowed
    ├── StepTooCostlyError   one decision or update would need more arithmetic than allowed
    ├── InvalidStateError    bytes or arrays that are not a state of this learner
    └── InvalidArrayError    invalid contexts, rounds, distributions or uniform numbers
    """


class StateTooLargeError(LearnerError):
    """The learner's state or evidence would need more memory than allowed; the message suggests an alternative."""


class StepTooCostlyError(LearnerError):
    """One decision or update would take more multiply-adds than allowed; the message suggests another learner."""


class InvalidStateError(LearnerError):
    """The bytes or arrays are not a state of this learner."""


class InvalidArrayError(LearnerError):
    """Contexts, rounds, distributions or uniform numbers are invalid; the message names the field."""
