"""Parses rounds to import, and encodes their predictions."""

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.answers import is_structured
from learners.base import NO_LABEL, Draws, FloatArray
from service import errors
from service.choice.requests import Options, PredictionRequest
from service.error_messages.patterns import CLOCK_SECONDS
from service.error_messages.values import quoted, shown
from service.models.model import Model
from service.models.policies import reward_refused
from service.prediction_id import OWN, tokens_of
from service.rounds.deciding import Basis, Chance, chosen_by, predictions_of
from service.schemas.rounds import ImportRound
from service.store.records.new_predictions import NewPredictions
from service.store.records.optional_fields import ANOTHERS
from service.store.values import ImportBlock


class ParsedRound(NamedTuple):
    """A round to import, after all checks."""

    request: PredictionRequest
    answer: int | None  # the number of the label, or the position of the action; None if the model draws it
    propensity: float
    reward: float | None  # None if the model draws the answer: the reward then follows from answer and truth
    truth: int | None  # the number of the true label, or the position of the right action; None if unknown
    at: float | None  # seconds since the epoch; None for the time of the import
    holdout: bool


def parse_rounds(model: Model, given: Sequence[ImportRound], now: float) -> list[ParsedRound]:
    """Check rounds; raise `InvalidInputError` with a field under `rounds.<index>` if one does not fit the model."""
    found = list[ParsedRound]()
    for i, each in enumerate(given):
        try:
            found.append(_read(model, each, now))
        except errors.InvalidInputError as error:
            field = "label" if error.field == "baseline" else error.field  # `_read` passes the label as baseline
            raise type(error)(error.detail, f"rounds.{i}.{field}") from None
    return found


def _read(model: Model, given: ImportRound, now: float) -> ParsedRound:
    if is_structured(model.learner):
        detail = "the model answers several labels; only rounds of one label can be imported"
        raise errors.InvalidInputError(detail, "label")
    _check_fields(model, given)
    eligible = None if given.eligible is None else tuple(given.eligible)
    costs = None if given.costs is None else tuple(given.costs.items())
    options = Options(eligible, given.label, costs=costs)  # as the baseline, so that the label is checked
    request = model.choice.parse(PredictionRequest(given.context, None, False, options, given.actions))
    model.choice.check_options(request)
    answer = None if given.label is None else _number(model, request, given.label, "label")
    truth = None if given.true_label is None else _number(model, request, given.true_label, "true_label")
    if truth is not None:
        model.choice.answers.check_truth(truth, "true_label")
    at = None if given.at is None else given.at.timestamp()
    if at is not None and not 0.0 <= at <= now + CLOCK_SECONDS:
        raise errors.InvalidInputError(f"got {given.at}; must be from 1970 to now", "at")
    reward = _reward(model, given, answer, truth)
    if reward == 1.0 and truth is None:
        truth = answer
    return ParsedRound(request, answer, given.propensity or 1.0, reward, truth, at, given.holdout)


def _check_fields(model: Model, given: ImportRound) -> None:
    if given.label is None:
        _check_labelled(given)
        return
    if given.propensity is None:
        raise errors.MissingFieldError("missing; send the probability with which the label was chosen", "propensity")
    said = [name for name in ("correct", "true_label") if getattr(given, name) is not None]
    if given.reward is None:
        if not said:
            raise errors.MissingFieldError("missing; send correct, or true_label, or both, or reward", "correct")
        return
    if said:
        detail = f"got {shown(given.reward)} together with {said[0]}; send one of them"
        raise errors.RewardNotAloneError(detail, "reward")
    if not model.learner.accepts_rewards:
        raise reward_refused(model.learner, given.reward, "reward")


def _check_labelled(given: ImportRound) -> None:
    if given.true_label is None:
        detail = "missing; send label with propensity, or true_label, or all of them"
        raise errors.MissingFieldError(detail, "true_label")
    for name in ("propensity", "correct", "reward"):
        if (value := getattr(given, name)) is not None:
            raise errors.InvalidInputError(f"got {shown(value)} without label; the model draws the label", name)
    if given.holdout:
        raise errors.InvalidInputError("got true without label; the model decides who answers", "holdout")


def _number(model: Model, request: PredictionRequest, label: str, field: str) -> int:
    known = model.choice.positions(request)
    if label in known:
        return known[label]
    if request.parsed is not None:
        raise errors.UnknownActionError(f"got {quoted(label)}; the round has no eligible action with this id", field)
    raise errors.UnknownLabelError(f"got {quoted(label)}; the model has no such label", field)


def _reward(model: Model, given: ImportRound, answer: int | None, truth: int | None) -> float | None:
    if answer is None:
        return None
    if model.choice.answers.abstains(answer):
        return _reward_of_abstention(model, given, truth)
    if given.reward is not None:
        reward = given.reward
    elif truth is None:
        reward = float(bool(given.correct))
    else:
        reward = float(truth == answer)
        if given.correct is not None and given.correct != (truth == answer):
            raise errors.InconsistentFeedbackError("contradicts true_label and label", "correct")
    if reward < 1.0 and truth is None and model.learner.needs_true_label:
        detail = "missing; the learner of this model needs true_label if the label is wrong"
        raise errors.LabelNeededError(detail, "true_label")
    return reward


def _reward_of_abstention(model: Model, given: ImportRound, truth: int | None) -> float:
    if truth is None:
        detail = "missing; the label represents abstaining, so the round needs true_label"
        raise errors.LabelNeededError(detail, "true_label")
    if given.correct is not None:
        detail = f"got {shown(given.correct)}; the label represents abstaining, which is neither right nor wrong"
        raise errors.InconsistentFeedbackError(detail, "correct")
    return model.choice.answers.codec.abstention


_REWARD = struct.Struct("<d")


def drawn_predictions(basis: Basis, rounds: Sequence[ParsedRound], chance: Chance) -> NewPredictions:
    """Return the predictions of n rounds whose answers the model draws."""
    chosen = chosen_by(basis, [each.request for each in rounds], chance)
    return predictions_of(basis, chosen)._replace(holdout=chance.held_out)


def logged_predictions(
    basis: Basis, rounds: Sequence[ParsedRound], chance: Chance, residuals: FloatArray
) -> NewPredictions:
    """Return the predictions of n logged rounds, with the logged answers and propensities, and evidence computed now.

    `residuals`, (n,), are new random numbers in [0, 1). They replace those that the original draws left over.
    """
    requests, positions = [each.request for each in rounds], np.array([each.answer for each in rounds], np.int64)
    chosen = chosen_by(basis, requests, chance)
    contexts, parts = basis.model.choice.stored(requests, chosen.candidates, positions, None)
    np.copyto(parts.prices[:, :1], ANOTHERS, where=~np.isnan(parts.prices[:, :1]))
    draws = Draws(positions, np.array([each.propensity for each in rounds]), residuals)
    predictions = predictions_of(basis, chosen._replace(draws=draws, contexts=contexts, parts=parts))
    return predictions._replace(holdout=np.array([each.holdout for each in rounds]), is_foreign=True)


def encoded(
    model: Model, predictions: NewPredictions, rounds: Sequence[ParsedRound], new_id: Callable[[], str]
) -> list[ImportBlock]:
    """Encode n predictions and their outcomes, in blocks."""
    at = [predictions.predicted_at if each.at is None else each.at for each in rounds]
    predictions, records = predictions._replace(predicted_at=np.array(at)), model.choice.records
    bounds = records.bounds(predictions.contexts, predictions.parts)
    ids = [OWN + new_id() for _ in bounds[1:]]
    nothing = [bytes(16)] * len(ids)
    blocks = records.encode_blocks(predictions, bounds, tokens_of(bounds, new_id()), nothing)
    outcomes = _outcomes(model, predictions, rounds)
    parts = [b"".join(outcomes[start:stop]) for start, stop in pairwise(bounds)]
    return list(map(ImportBlock, ids, blocks, parts))


def _outcomes(model: Model, predictions: NewPredictions, rounds: Sequence[ParsedRound]) -> list[bytes]:
    """Encode the reward and the truth of each round. Among actions, only a right answer is stored as the truth."""
    rewards, truths = list[float](), list[int]()
    for each, answer in zip(rounds, predictions.outputs.tolist(), strict=True):
        reward = each.reward
        if reward is None:
            abstains = model.choice.answers.abstains(answer)
            reward = model.choice.answers.codec.abstention if abstains else float(each.truth == answer)
        unknown = each.truth is None or each.request.parsed is not None
        rewards.append(reward)
        truths.append(answer if reward == 1.0 else NO_LABEL if unknown else each.truth or 0)
    stored = model.choice.answers.codec.encode(np.array(truths, dtype=np.int64))
    return [_REWARD.pack(reward) + truth for reward, truth in zip(rewards, stored, strict=True)]
