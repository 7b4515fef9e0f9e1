"""The fold of a log, by the learner of its model or by another one in its place."""
