"""After `warm_up` no kernel compiles again, for any hyperparameters, dense or sparse."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba

from learners import codec
from learners.base import Problem, Rounds
from learners.registry import warm_up
from tests.learners.arrays import as_sparse
from tests.learners.implementations import IMPLEMENTATIONS
from tests.learners.worlds import random_rounds

ROOT = Path(__file__).parents[2]


def compiled() -> dict[str, list[str]]:
    """Return every loaded kernel of the learners, with the signatures that are compiled."""
    kernels: dict[str, Any] = {
        f"{module.__name__}.{name}": thing
        for module in list(sys.modules.values())
        if module.__name__.startswith("learners.")
        for name, thing in vars(module).items()
        if isinstance(thing, numba.core.registry.CPUDispatcher)
    }
    return {name: [str(signature) for signature in kernel.signatures] for name, kernel in kernels.items()}


def play_all() -> None:
    """Let every implementation decide and fold, on the kinds of states and rounds that a worker has."""
    for case in IMPLEMENTATIONS:
        learner = case.at(Problem(4, 5))
        dense = random_rounds(1, 8, learner)
        for rounds in (dense, dense._replace(contexts=as_sparse(dense.contexts))):
            state = codec.decode_state(learner, codec.encode_state(learner, learner.init()))
            evidence = learner.decide(state, rounds.contexts).evidence
            learner.fold(state, Rounds.of_bits(*rounds[:5], evidence, rounds.residual_uniforms))


def compiled_late() -> dict[str, list[str]]:
    """Return what `play_all` compiles after `warm_up`, in a process that has compiled nothing yet."""
    assert not any(compiled().values())
    warm_up()
    before = compiled()
    assert sum(map(bool, before.values())) > 20
    play_all()
    later = {name: [s for s in signatures if s not in before[name]] for name, signatures in compiled().items()}
    return {name: signatures for name, signatures in later.items() if signatures}


def test_nothing_is_compiled_after_the_warm_up() -> None:
    """In a fresh process, no implementation compiles after the warm-up, on dense or sparse contexts."""
    program = "import json; from tests.learners.test_warm_up import compiled_late; print(json.dumps(compiled_late()))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {}
