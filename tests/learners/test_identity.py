"""The identity in an encoded state: only its own learner opens it, including states older than a hyperparameter."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from learners import codec
from learners.base import AnyLearner, InvalidStateError, Problem
from learners.registry import ALIASES, ALL_LEARNERS, aliases_of, current_name
from tests.learners.arrays import bits
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


def test_missing_hyperparameter_means_its_default(learner: AnyLearner) -> None:
    """An identity without a hyperparameter opens only where the learner has its default."""
    fields, hyperparameters = json.loads(codec.identity(learner)), dataclasses.fields(type(learner))  # type: ignore[arg-type]
    for field in hyperparameters:
        without = json.dumps({name: value for name, value in fields.items() if name != field.name})
        data = state_of(learner, without)
        if field.name != "problem" and fields[field.name] == field.default:
            assert bits(codec.decode_state(learner, data)) == bits(learner.init())
        else:
            with pytest.raises(InvalidStateError, match="another learner"):
                codec.decode_state(learner, data)
    least = {"algorithm": fields["algorithm"], "problem": fields["problem"]}
    chosen = {field.name: fields[field.name] for field in hyperparameters if fields[field.name] != field.default}
    assert bits(codec.decode_state(learner, state_of(learner, json.dumps(least | chosen)))) == bits(learner.init())


@pytest.mark.parametrize("identity", ["", "[]", "null", "1", '"x"', "{}", "{", "[" * 100_000, '{"algorithm":null}'])
def test_invalid_identity_is_refused(learner: AnyLearner, identity: str) -> None:
    """An invalid identity raises `InvalidStateError`."""
    with pytest.raises(InvalidStateError):
        codec.decode_state(learner, state_of(learner, identity))


def test_identity_of_another_learner_is_refused(learner: AnyLearner) -> None:
    """An unknown hyperparameter, or another problem or algorithm, is refused."""
    fields: dict[str, Any] = json.loads(codec.identity(learner))
    for change in ({"momentum": 0.9}, {"algorithm": "other"}, {"problem": fields["problem"] | {"norm_bound": 2.0}}):
        with pytest.raises(InvalidStateError):
            codec.decode_state(learner, state_of(learner, json.dumps(fields | change)))


def test_each_alias_names_one_learner() -> None:
    """Each alias names a registered algorithm and is not one itself; `current_name` returns other names unchanged."""
    assert ALIASES.keys().isdisjoint(ALL_LEARNERS)
    assert {current_name(alias) for alias in ALIASES} <= ALL_LEARNERS.keys()
    assert [current_name(name) for name in (*ALL_LEARNERS, "other")] == [*ALL_LEARNERS, "other"]
    assert {alias: name for name in ALL_LEARNERS for alias in aliases_of(name)} == ALIASES


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("case", IMPLEMENTATIONS, ids=str)
def test_state_under_an_alias_opens(case: Case, alias: str) -> None:
    """Only the learner that once had the name opens the state."""
    learner = case.at(Problem(4, 5))
    data = state_of(learner, json.dumps(json.loads(codec.identity(learner)) | {"algorithm": alias}))
    if learner.algorithm == ALIASES[alias]:
        assert bits(codec.decode_state(learner, data)) == bits(learner.init())
    else:
        with pytest.raises(InvalidStateError, match="another learner"):
            codec.decode_state(learner, data)
