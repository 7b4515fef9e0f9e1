"""The identity in an encoded state: only its own learner opens it."""

import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from learners import codec
from learners.base import AnyLearner, InvalidStateError, Problem
from tests.learners.implementations import IMPLEMENTATIONS, Case


@pytest.fixture(params=IMPLEMENTATIONS, ids=str)
def learner(request: pytest.FixtureRequest) -> AnyLearner:
    """Return each implementation in turn."""
    case: Case = request.param
    return case.at(Problem(4, 5))


def state_of(learner: AnyLearner, identity: str) -> bytes:
    """Encode the learner's first state under the given identity."""
    arrays = {name: np.array(array, order="C") for name, array in learner.init()._asdict().items()}
    return safetensors.numpy.save(arrays, metadata={"learner": identity})


@pytest.mark.parametrize("identity", ["", "[]", "null", "1", '"x"', "{}", "{", "[" * 100_000, '{"algorithm":null}'])
def test_invalid_identity_is_refused(learner: AnyLearner, identity: str) -> None:
    """An invalid identity raises `InvalidStateError`."""
    with pytest.raises(InvalidStateError):
        codec.decode_state(learner, state_of(learner, identity))


def test_identity_of_another_learner_is_refused(learner: AnyLearner) -> None:
    """An unknown or missing hyperparameter, or another problem or algorithm, is refused."""
    fields: dict[str, Any] = json.loads(codec.identity(learner))
    for name in fields:
        less = {other: value for other, value in fields.items() if other != name}
        with pytest.raises(InvalidStateError, match="another learner"):
            codec.decode_state(learner, state_of(learner, json.dumps(less)))
    for change in ({"momentum": 0.9}, {"algorithm": "other"}, {"problem": fields["problem"] | {"norm_bound": 2.0}}):
        with pytest.raises(InvalidStateError):
            codec.decode_state(learner, state_of(learner, json.dumps(fields | change)))
