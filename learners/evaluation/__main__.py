"""`python -m learners.evaluation` compiles the loop of shadows for usual learners, so that no shadow waits for it."""

import numpy as np

from learners.base import Contexts, Problem, Rounds, every_label
from learners.evaluation.progressive import progress_unchecked
from learners.registry import LEARNERS, RECOMMENDED

_USUAL = (RECOMMENDED.algorithm, "gaptron", "soba-diagonal", "epsilon-greedy-ridge", "uniform")
"""Learners that are compiled ahead: some 14 seconds of a core. Others compile when a shadow first has them."""


def main() -> None:
    """Let each of them decide and fold one round of another policy."""
    number, bit = np.zeros(1, np.int64), np.ones(1, np.bool_)
    contexts, third = Contexts.dense([[1.0]]), np.full(1, 1 / 3)
    evidence = np.empty((1, 0))
    rounds = Rounds(contexts, number, third, bit, number, evidence, np.zeros(1), np.ones(1), every_label(1))
    for name in _USUAL:
        learner = LEARNERS[name](problem=Problem(n_labels=3, n_features=1))
        progress_unchecked(learner, learner.init(), rounds)


if __name__ == "__main__":
    main()
