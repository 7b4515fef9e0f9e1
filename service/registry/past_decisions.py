"""Decides a stored prediction again: the distribution that it was drawn from, and the scores that led to it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from learners.base import NO_PRICES, BoolArray, FloatArray
from service.actions.logged import LoggedActions
from service.choice.candidates import EVERY, Candidates
from service.choice.overrides import override_of
from service.choice.requests import Options, PredictionRequest
from service.models.model import Model
from service.replicas.past_fold import Past
from service.store.records.layout import HOLDOUT
from service.store.records.optional_fields import LogRows

_TOLERANCE = 1e-9  # by which the recomputed probability of the answer may differ from the stored propensity
_MOST_NUMBERS = 1_000_000  # maximum contributions that are summed to scores

_LOGGING = "In the mode logging, the model draws from the policies of the requests, which are not stored."
_SEVERAL_LABELS = "The model answers several labels, whose probability has no list."
_CHOSEN_ONLY = 'The log_actions of the model is "chosen", so the other actions are not stored.'


class Redecided(NamedTuple):
    """What is known of the distribution that an answer was drawn from. All is None but `reason` if nothing is."""

    distribution: dict[str, float] | None = None
    u: float | None = None  # the uniform random number that drew the answer
    scores: dict[str, float] | None = None
    rules_left_out: list[str] | None = None
    reason: str | None = None  # why the distribution is unknown


def is_held_out(row: LogRows) -> bool:
    """Return whether the holdout answered."""
    return bool(row.table["flags"][0] & HOLDOUT)


def unknowable(model: Model, row: LogRows) -> str | None:
    """Return why no state can tell the distribution of an answer among labels; None if one can."""
    if model.choice.answers.choices is None:
        return _SEVERAL_LABELS
    return _LOGGING if model.definition.mode == "logging" and not is_held_out(row) else None


def eligible_in(model: Model, row: LogRows) -> BoolArray:
    """Return the mask of the labels that an answer could be, (K,), for the K labels of the time; (0,) if all."""
    mask = row.parts.eligible[0][: len(model.definition.labels)]
    return EVERY if mask.all() else mask


def held_out_again(model: Model, row: LogRows) -> Redecided:
    """Return the distribution of the holdout's policy among labels."""
    labels, p = model.definition.labels, float(row.table["propensity"][0])
    # A baseline is answered with probability 1, except in later slots, where the labels that are left are equal.
    options = Options(baseline=labels[int(row.table["output"][0])] if p == 1.0 else None)
    asked, candidates = PredictionRequest(None, None, False, options), _candidates(model, row)
    override = override_of(model.definition, [asked], candidates, np.ones(1, np.bool_), model.choice.positions)
    if override is None:
        return _other(None, p)
    return _checked(model, row, override.probabilities)


def decided_again(past: Past, row: LogRows) -> Redecided:
    """Decide among labels with the model and the state that gave an answer."""
    model, candidates = past.model, _candidates(past.model, row)
    choice, p = model.choice, model.choice.decide(past.state, candidates)[0]
    found = _checked(model, row, p)
    if found.distribution is None:
        return found
    left_out = choice.left_out(candidates, None, p)
    return found._replace(scores=_scores(past, row), rules_left_out=left_out[0] or None if left_out else None)


def logged_again(model: Model, row: LogRows, actions: LoggedActions) -> Redecided:
    """Return the distribution among actions, if the record has it."""
    probabilities, ids = [each.probability for each in actions.actions], [each.id for each in actions.actions]
    p = np.array([each for each in probabilities if each is not None])
    if len(p) < actions.n:
        return Redecided(reason=_CHOSEN_ONLY)
    place, rules, left_out = ids.index(actions.chosen), model.choice.rules, list[str]()
    if rules is not None and not is_held_out(row) and model.definition.mode != "logging":
        left_out = rules.left_out(rules.of_tags([each.tag for each in actions.actions]).groups, EVERY, p)
    return Redecided(dict(zip(ids, p.tolist(), strict=True)), _uniform(row, p, place), None, left_out or None)


def _candidates(model: Model, row: LogRows) -> Candidates:
    starts = np.array([0, len(model.definition.labels)])
    bills = model.choice.bills(row)
    prices = NO_PRICES if bills is None else bills.prices
    return Candidates(starts, eligible_in(model, row), row.contexts, model.choice.limits, prices)


def _checked(model: Model, row: LogRows, p: FloatArray) -> Redecided:
    """Return the distribution p (K,) if it agrees with the stored propensity."""
    label, stored = int(row.table["output"][0]), float(row.table["propensity"][0])
    if label >= len(p) or not abs(p[label] - stored) <= _TOLERANCE:
        return _other(float(p[label]) if label < len(p) else None, stored)
    listed = model.choice.distribution(PredictionRequest(None, None, False), p, eligible_in(model, row))
    return Redecided(listed, _uniform(row, p, label))


def _other(recomputed: float | None, stored: float) -> Redecided:
    got = "" if recomputed is None else f" of {recomputed:.6g}"
    return Redecided(reason=f"The recomputed probability{got} differs from the stored propensity, {stored:.6g}.")


def _uniform(row: LogRows, p: FloatArray, place: int) -> float:
    residual, stored = float(row.table["residual_uniform"][0]), float(row.table["propensity"][0])
    return float(p[:place].sum()) + residual * stored


def _scores(past: Past, row: LogRows) -> dict[str, float] | None:
    """Return the score of each label that was not retired; None if the learner has no scores, or if they are costly."""
    model, prepared = past.model, past.model.choice.prepared(row.contexts)
    labels: Sequence[str] = model.definition.labels
    if prepared.values.size * len(labels) > _MOST_NUMBERS:
        return None
    added = model.learner.contributions(past.state, prepared)
    if added is None:
        return None
    scores = dict(zip(labels, added.sum(axis=0).tolist(), strict=True))
    return {label: score for label, score in scores.items() if label not in model.retired}
