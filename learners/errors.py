"""What the learners refuse. All of it is a `ValueError`, and `learners.base` names it too."""


class LearnerError(ValueError):
    """Root of what the learners refuse.

    LearnerError
    ├── StateTooLargeError   the state would need more memory than allowed
    ├── StepTooCostlyError   one decision or update would take more arithmetic than allowed
    ├── InvalidStateError    bytes or arrays that are no state of this learner
    └── InvalidArrayError    contexts, rounds or numbers to draw with that no learner can use
    """


class StateTooLargeError(LearnerError):
    """The learner's state would need more memory than allowed; the message names one that fits."""


class StepTooCostlyError(LearnerError):
    """One decision or update would take more multiply-adds than allowed; the message names a learner that fits."""


class InvalidStateError(LearnerError):
    """Bytes or arrays that are no state of this learner."""


class InvalidArrayError(LearnerError):
    """Contexts, rounds or numbers to draw with that no learner can use; the message names the field."""
