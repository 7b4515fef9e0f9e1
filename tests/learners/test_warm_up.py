"""After `load` no kernel of a learner compiles, and after the calls of all parts none of any learner."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from learners import codec
from learners.answers import is_structured
from learners.base import AnyLearner, Problem, Rounds
from learners.evaluation.progressive import progress_unchecked
from learners.registry import RECOMMENDED
from learners.warming import load, parts
from tests.kernels import Compiled, compiled, compiled_since
from tests.learners.arrays import as_sparse
from tests.learners.implementations import IMPLEMENTATIONS
from tests.learners.worlds import random_rounds

ROOT = Path(__file__).parents[2]


def all_rounds() -> Iterator[tuple[AnyLearner, Rounds]]:
    for case in IMPLEMENTATIONS:
        learner = case.at(Problem(4, 5))
        dense = random_rounds(1, 8, learner)
        for rounds in (dense, dense._replace(contexts=as_sparse(dense.contexts))):
            yield learner, rounds


def load_default() -> None:
    default: Any = RECOMMENDED
    load(default)


def use_all_parts() -> None:
    for calls in parts().values():
        for call in calls:
            call()


def play_default() -> None:
    _play(each for each in all_rounds() if isinstance(each[0], RECOMMENDED))


def play_all() -> None:
    _play(all_rounds())
    progress_all()


def _play(cases: Iterable[tuple[AnyLearner, Rounds]]) -> None:
    for learner, rounds in cases:
        state = codec.decode_state(learner, codec.encode_state(learner, learner.init()))
        evidence = learner.decide_unchecked(state, rounds.contexts).evidence
        state = learner.fold_unchecked(state, Rounds.of_bits(*rounds[:5], evidence, rounds.residual_uniforms))
        learner.contributions(state, rounds.contexts.rows(0, 1))


def progress_all() -> None:
    for learner, rounds in all_rounds():
        if not is_structured(learner):
            state = codec.decode_state(learner, codec.encode_state(learner, learner.init()))
            progress_unchecked(learner, state, rounds)


def compiled_late() -> list[Compiled]:
    assert not any(compiled().values())
    late = []
    for prepare, use in ((load_default, play_default), (use_all_parts, play_all)):
        prepare()
        before = compiled()
        assert sum(map(bool, before.values())) > 5
        use()
        late.append(compiled_since(before))
    return late


def test_nothing_is_compiled_after_the_warm_up() -> None:
    program = "import json; from tests.learners.test_warm_up import compiled_late; print(json.dumps(compiled_late()))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [{}, {}]
