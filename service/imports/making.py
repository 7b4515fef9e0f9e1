"""Makes the records of imported rounds."""

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from learners.base import NO_LABEL, FloatArray, IntArray
from service.candidates.choosing import vectors_of
from service.errors import LearnerFailedError
from service.imports.given_rounds import ReadRound
from service.models.model import Model
from service.prediction_id import OWN, tokens_of
from service.replicas.replica import Replica
from service.store.import_store import ImportBlock
from service.store.records.new_predictions import NewPredictions

_REWARD = struct.Struct("<d")


def chosen_predictions(replica: Replica, rounds: Sequence[ReadRound], now: float) -> NewPredictions:
    """Return the predictions of logged rounds with actions. They need no decision.

    Args:
        replica: of a model with actions.
        rounds: n logged rounds.
        now: seconds since the epoch.

    Raises:
        LearnerFailedError: if a number of them cannot be stored.
    """
    model, chosen = replica.model, _answers(rounds)
    sets = [each.request.candidates for each in rounds if each.request.candidates is not None]
    contexts, parts = vectors_of(model, sets, chosen)
    counts = np.array([[len(each.actions)] for each in sets], dtype=np.float64)
    unknown: FloatArray = np.zeros(len(rounds))
    places = (now, now, replica.round_count, replica.change_count, parts)
    rows = model.answers.form.rows(chosen)
    made = NewPredictions(rows, np.ones(len(rounds)), unknown, counts, contexts, *places)
    if not (sound := model.format.sound(made)).all():
        i = int(np.flatnonzero(~sound)[0])
        raise LearnerFailedError("the features of the action cannot be stored", f"rounds.{i}")
    return made


def as_logged(
    model: Model, predictions: NewPredictions, rounds: Sequence[ReadRound], uniforms: FloatArray
) -> NewPredictions:
    """Return predictions with the answers and the propensities of logged rounds.

    Args:
        model: the model.
        predictions: n predictions for their contexts.
        rounds: n logged rounds.
        uniforms: (n,), random numbers in [0, 1).
    """
    return predictions._replace(
        outputs=model.answers.form.rows(_answers(rounds)),
        propensities=np.array([each.propensity for each in rounds]),
        residual_uniforms=uniforms,
        holdout=np.array([each.holdout for each in rounds]),
    )


def encoded(
    model: Model, predictions: NewPredictions, rounds: Sequence[ReadRound], new_id: Callable[[], str]
) -> list[ImportBlock]:
    """Encode n predictions and their outcomes.

    Args:
        model: the model.
        predictions: n predictions.
        rounds: their rounds.
        new_id: generates the names of blocks.
    """
    at = [predictions.predicted_at if each.at is None else each.at for each in rounds]
    predictions = predictions._replace(predicted_at=np.array(at))
    bounds = model.format.bounds(predictions.contexts, predictions.parts)
    ids = [OWN + new_id() for _ in bounds[1:]]
    nothing = [bytes(16)] * len(ids)
    records = model.format.encode_blocks(predictions, bounds, tokens_of(bounds, new_id()), nothing)
    outcomes = _outcomes(model, predictions, rounds)
    parts = [b"".join(outcomes[start:stop]) for start, stop in pairwise(bounds)]
    return list(map(ImportBlock, ids, records, parts))


def _answers(rounds: Sequence[ReadRound]) -> IntArray:
    return np.array([NO_LABEL if each.answer is None else each.answer for each in rounds], dtype=np.int64)


def _outcomes(model: Model, predictions: NewPredictions, rounds: Sequence[ReadRound]) -> list[bytes]:
    """Return the reward and the truth of each round. Wrong actions have no truth: ids belong to one request."""
    rewards, truths = list[float](), list[int]()
    for each, answer in zip(rounds, predictions.outputs.tolist(), strict=True):
        reward = float(each.truth == answer) if each.reward is None else each.reward
        unknown = each.truth is None or model.vectors is not None
        rewards.append(reward)
        truths.append(answer if reward == 1.0 else NO_LABEL if unknown else each.truth or 0)
    stored = model.answers.form.encode(np.array(truths, dtype=np.int64))
    return [_REWARD.pack(reward) + truth for reward, truth in zip(rewards, stored, strict=True)]
