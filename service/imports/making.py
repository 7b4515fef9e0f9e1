"""Makes the records of imported rounds."""

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from learners.base import NO_LABEL, Draws, FloatArray
from service.imports.given_rounds import ReadRound
from service.models.model import Model
from service.prediction_id import OWN, tokens_of
from service.rounds.deciding import Basis, Chance, chosen_by, predictions_of
from service.store.import_store import ImportBlock
from service.store.records.new_predictions import NewPredictions

_REWARD = struct.Struct("<d")


def drawn_predictions(basis: Basis, rounds: Sequence[ReadRound], chance: Chance) -> NewPredictions:
    """Return the predictions of n rounds whose answers the model draws.

    Args:
        basis: what the decisions take into account.
        rounds: n rounds.
        chance: their random numbers.

    Raises:
        ImpossibleDecisionsError: if the learner fails, or its decisions cannot be stored.
    """
    chosen = chosen_by(basis, [each.request for each in rounds], chance)
    return predictions_of(basis, chosen)._replace(holdout=chance.held_out)


def logged_predictions(
    basis: Basis, rounds: Sequence[ReadRound], chance: Chance, residuals: FloatArray
) -> NewPredictions:
    """Return the predictions of n logged rounds: their answers and propensities, and the learner's evidence.

    Args:
        basis: what the evidence takes into account.
        rounds: n logged rounds.
        chance: random numbers of decisions.
        residuals: (n,), random numbers in [0, 1).

    Raises:
        ImpossibleDecisionsError: as `drawn_predictions`.
    """
    requests, positions = [each.request for each in rounds], np.array([each.answer for each in rounds], np.int64)
    chosen = chosen_by(basis, requests, chance)
    contexts, parts = basis.model.choice.stored(requests, chosen.candidates, positions, None)
    draws = Draws(positions, np.array([each.propensity for each in rounds]), residuals)
    predictions = predictions_of(basis, chosen._replace(draws=draws, contexts=contexts, parts=parts))
    return predictions._replace(holdout=np.array([each.holdout for each in rounds]))


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
    predictions, records = predictions._replace(predicted_at=np.array(at)), model.choice.records
    bounds = records.bounds(predictions.contexts, predictions.parts)
    ids = [OWN + new_id() for _ in bounds[1:]]
    nothing = [bytes(16)] * len(ids)
    blocks = records.encode_blocks(predictions, bounds, tokens_of(bounds, new_id()), nothing)
    outcomes = _outcomes(model, predictions, rounds)
    parts = [b"".join(outcomes[start:stop]) for start, stop in pairwise(bounds)]
    return list(map(ImportBlock, ids, blocks, parts))


def _outcomes(model: Model, predictions: NewPredictions, rounds: Sequence[ReadRound]) -> list[bytes]:
    """Return the reward and the truth of each round. Wrong actions have no truth: ids belong to one request."""
    rewards, truths = list[float](), list[int]()
    for each, answer in zip(rounds, predictions.outputs.tolist(), strict=True):
        reward = float(each.truth == answer) if each.reward is None else each.reward
        unknown = each.truth is None or each.request.read is not None
        rewards.append(reward)
        truths.append(answer if reward == 1.0 else NO_LABEL if unknown else each.truth or 0)
    stored = model.choice.answers.form.encode(np.array(truths, dtype=np.int64))
    return [_REWARD.pack(reward) + truth for reward, truth in zip(rewards, stored, strict=True)]
