"""Costs of computations, in multiply-adds. They decide which work needs a thread, and how much is done together.

A multiply-add takes up to a nanosecond. Learners estimate their own decisions and folds; the other costs are measured.
"""

from learners.base import AnyLearner

# Limits on computations.
INLINE = 5_000_000  # a few milliseconds: cheaper work runs in the event loop, other work in a thread
SLICE = 20_000_000  # 10 to 20 milliseconds: then other work gets a turn. A slice costs more only if one step does
STRETCH = 1_000_000_000  # about one second: then a fold checks whether its model still exists
IMPORTED_TOGETHER = 200_000_000  # the decisions of rounds that are imported together
PREDICTED_TOGETHER = 2_000_000_000  # decisions of a batch made together: then other requests for the model get a turn
PROMOTION = 2_000_000_000  # the rounds that a promotion folds, while the request and each worker wait
FIRST_CALL = 2**63  # the first call of a kernel, which may compile it, and so always needs a thread

# Requests.
BATCH_ITEM, BATCH_NUMBER = 2_000, 50  # one item, and one number in it, of a batch decoded at once
SINGLE_ITEM = 100_000  # one item of a batch that has an invalid item, so that each is validated alone
WEBHOOK_BYTE = 50  # one byte verified and parsed
CONTEXT_NUMBER = 100  # one number checked
CONTEXT_FEATURE, CONTEXT_PRODUCT = 2_500, 2_000  # one named feature, or product of two, read and hashed
VECTOR, VECTOR_PRODUCT = 40_000, 150  # one vector, on top of its numbers; and one product with a number of it
ACTION = 20_000  # one action with some features, read
OPTIONS = 10_000  # the options of a request, checked
FINGERPRINT = 20_000  # the hash of a request with an id, by which a repetition is recognized

# Decisions, on top of the learner's.
STORED_NUMBER, STORED_FEATURE = 30, 1_500  # one number, or named feature, of a context, encoded
CANDIDATE, CANDIDATE_ENTRY = 1_000, 10  # one action joined with others, and one entry of its vector
LIMITED_CANDIDATE, RULE = 300, 500  # one probability limited by rules, and one rule compared with the result
IMPORTED_ROUND = 40_000  # one round encoded, on top of its numbers
TYPICAL_NONZEROS = 1000  # assumed entries of a sparse context that has not been read

# Answers.
LISTED_PROBABILITY = 30  # one probability in a response
EXPLAINED_FOLD = 2_000_000_000  # rounds folded again to explain a prediction, at most: about two seconds
REPEATED_PREDICTION = 80_000  # one stored prediction, decoded for a repeated request
EXPLAINED_NUMBER, EXPLAINED_FEATURE = 100, 5_000  # one contribution to a label's score, and one feature
DECODED_BYTE, PRINTED_BYTE = 50, 100  # one byte of the log decoded, or decoded and converted to JSON
PRINTED_ROUND = 20_000  # one line of the log, written as JSON
STATISTICS_BYTE = 500  # one stored byte read, and its share of the response written
GLANCE = 100_000  # one model in a list, without its statistics

# Models.
DEFINITION_CHARACTER = 50  # one character read
DEFINITION_LABEL = 1_000  # one label checked and written
DEFINITION_PAIR = 2  # two sets that a learner may answer, compared


def typical_decision(learner: AnyLearner) -> int:
    """Return the cost of a decision for a context that has not been read."""
    return learner.decide_cost(min(learner.problem.n_features, TYPICAL_NONZEROS))
