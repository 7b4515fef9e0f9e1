"""Vowpal Wabbit's contextual bandits on the same streams, with the same uniform numbers for the draws.

Each round predicts the distribution, draws a label from it, and learns its loss, as a service does.
"""

import importlib
from typing import Any, Literal

import numpy as np

from benchmarks.papers.data.chunks import Chunk
from learners.base import Contexts, FloatArray, Problem
from learners.kernels import row
from learners.mathematics.exploration import draw_one

ALGORITHM = "vowpal-wabbit"
_WRONG = {"0/1": 1.0, "-1/0": 0.0}  # the cost of a wrong answer; that of a right one is less by 1


class VowpalWabbit:
    """A player that runs `--cb_explore K` with the given options.

    Args:
        problem: K labels; the number of features does not matter.
        options: command line options, such as `--squarecb` or `--epsilon 0.05 --cb_type dr`.
        costs: costs of a right and a wrong answer.
    """

    def __init__(self, problem: Problem, options: str = "", costs: Literal["0/1", "-1/0"] = "0/1") -> None:
        module = importlib.import_module("vowpalwabbit")
        # 2^22 weights, so that hash collisions among K·d weights are rare.
        self._workspace: Any = module.Workspace(
            f"--cb_explore {problem.n_labels} {options} -b 22 --random_seed 1 --quiet"
        )
        self._wrong, self._n_labels = _WRONG[costs], problem.n_labels

    def play(self, chunk: Chunk, uniforms: FloatArray) -> FloatArray:
        """Play the rounds of a chunk. Return their losses, (n,)."""
        losses = chunk.losses(self._n_labels)
        return np.array([self._play_one(_text(chunk.contexts, t), losses[t], uniforms[t]) for t in range(len(losses))])

    def _play_one(self, text: str, losses: FloatArray, uniform: float) -> float:
        distribution = np.array(self._workspace.predict(text))
        label, _ = draw_one(distribution / distribution.sum(), uniform)
        loss = float(losses[label])
        cost = loss - 1.0 + self._wrong
        self._workspace.learn(f"{label + 1}:{cost:.9g}:{distribution[label]} {text}")
        return loss


def _text(contexts: Contexts, t: int) -> str:
    """Format a context as a line without a label."""
    indices, values = row(contexts, t)
    return "| " + " ".join(f"x{i}:{x:.9g}" for i, x in zip(indices.tolist(), values.tolist(), strict=True))
