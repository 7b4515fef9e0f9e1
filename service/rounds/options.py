"""What a request for a prediction may ask besides the context: eligible labels, a baseline, a policy."""

import json
import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray
from service.actions.errors import UnknownActionError
from service.input_errors import (
    BaselineNeededError,
    EligibleError,
    InvalidInputError,
    ModeError,
    RetiredLabelError,
    UnknownLabelError,
)
from service.models.model import Model
from service.schemas.rounds import PredictItem
from service.slots.errors import TooFewChoicesError, TopUnsupportedError
from service.slots.remaining import renormalized
from service.wording.values import counted, quoted, shown

_SUM_TOLERANCE = 1e-9


class Options(NamedTuple):
    """The optional parts of a request that change how it is answered."""

    eligible: tuple[str, ...] | None = None  # None: every label of the model
    baseline: str | None = None  # the label that the client would choose itself
    policy: tuple[tuple[str, float], ...] | None = None  # probabilities to draw from, in logging mode
    activated: bool = True  # whether the prediction takes feedback at once
    top: int | None = None  # the number of slots; None for one answer without slots

    @property
    def name_labels(self) -> bool:
        """Whether any of them names labels."""
        return not (self.eligible is None and self.baseline is None and self.policy is None)

    def encode(self) -> bytes:
        """Return bytes that differ between requests for different answers."""
        eligible = None if self.eligible is None else sorted(self.eligible)
        slots = [] if self.top is None else [self.top]
        return json.dumps([eligible, self.baseline, sorted(self.policy or ()), self.activated, *slots]).encode()


NO_OPTIONS = Options()


def options_of(request: PredictItem) -> Options:
    """Return the options of a request."""
    named = request.eligible, request.baseline, request.policy, request.top
    if request.activated and named == (None, None, None, None):
        return NO_OPTIONS
    eligible = None if request.eligible is None else tuple(request.eligible)
    policy = None if request.policy is None else tuple(request.policy.items())
    return Options(eligible, request.baseline, policy, request.activated, request.top)


def check_options(model: Model, options: Options, actions: Collection[str] | None = None) -> None:
    """Check that options fit the model.

    Args:
        model: the model.
        options: of one request.
        actions: the ids of its eligible actions, for a model with actions.

    Raises:
        InvalidInputError: if they do not. The error names the field.
    """
    holdout = model.definition.holdout
    if options.baseline is None and holdout is not None and holdout.policy == "baseline":
        raise BaselineNeededError("missing; the holdout of this model answers the baseline of each request", "baseline")
    if options.top is not None:
        _check_top(model, options, options.top, actions)
    if not options.name_labels:
        return
    if actions is not None:
        _check_actions(model, options, set(actions))
        return
    if model.answers.choices is None:
        field = "eligible" if options.eligible is not None else "policy" if options.policy is not None else "baseline"
        raise EligibleError("the model answers several labels, so its requests cannot name labels", field)
    for i, label in enumerate(options.eligible or ()):
        _check_label(model, label, f"eligible.{i}")
    if options.baseline is not None:
        _check_label(model, options.baseline, "baseline")
        _check_eligible(options, options.baseline, "baseline")
    if options.policy is not None:
        _check_policy(model, options)


def _check_top(model: Model, options: Options, top: int, actions: Collection[str] | None) -> None:
    if actions is not None:
        left, things = len(actions), "actions"
    elif model.answers.choices is None:
        raise TopUnsupportedError("the model answers several labels at once, so its answers have no slots", "top")
    else:
        left, things = len(model.active.nonzero()[0] if options.eligible is None else options.eligible), "labels"
    if top > left:
        raise TooFewChoicesError(f"got {top}; the request has {counted(left, f'eligible {things}')}", "top")


def _check_actions(model: Model, options: Options, actions: Collection[str]) -> None:
    named = [(id_, "policy") for id_, _ in options.policy or ()]
    named += [(options.baseline, "baseline")] if options.baseline is not None else []
    for id_, field in named:
        if id_ not in actions:
            raise UnknownActionError(f"got {quoted(id_)}; the request has no eligible action with this id", field)
    if options.policy is not None:
        _check_probabilities(model, options)


def _check_policy(model: Model, options: Options) -> None:
    _check_probabilities(model, options)
    for label, _ in options.policy or ():
        _check_label(model, label, "policy")
        _check_eligible(options, label, "policy")


def _check_probabilities(model: Model, options: Options) -> None:
    if model.definition.mode != "logging":
        raise ModeError(f'the model has mode {shown(model.definition.mode)}, not "logging"', "policy")
    total = math.fsum(p for _, p in options.policy or ())
    if abs(total - 1.0) > _SUM_TOLERANCE:
        raise InvalidInputError(f"the probabilities sum to {shown(total)}; they must sum to 1", "policy")


def _check_label(model: Model, label: str, field: str) -> None:
    if label in model.retired:
        raise RetiredLabelError(f"got {quoted(label)}; the model has retired this label", field)
    if label not in model.answers.numbers:
        raise UnknownLabelError(f"got {quoted(label)}; the model has no such label", field)


def _check_eligible(options: Options, label: str, field: str) -> None:
    if options.eligible is not None and label not in options.eligible:
        raise InvalidInputError(f"got {quoted(label)}, which is not among the eligible labels", field)


def eligible_labels(model: Model, options: Sequence[Options]) -> BoolArray:
    """Return the labels that each of n requests may be answered with, (n, K); (n, 0) if every label may."""
    n = len(options)
    if not model.retired and all([each.eligible is None for each in options]):  # noqa: C419  a list is faster
        return np.ones((n, 0), np.bool_)
    eligible, numbers = np.tile(model.active, (n, 1)), model.answers.numbers
    for i, each in enumerate(options):
        if each.eligible is not None:
            eligible[i] = False
            eligible[i, [numbers[label] for label in each.eligible]] = True
    return eligible


class Arms(NamedTuple):
    """The rows of a batch of n that another policy than the learner answers."""

    rows: BoolArray  # (n,), which rows
    distributions: FloatArray  # (n, K), of these rows; (n, 0) if there are none
    holdout: BoolArray  # (n,), which rows are for evaluation only

    def part(self, start: int, stop: int) -> "Arms":
        """Return the arms of requests start … stop - 1, as views."""
        return Arms(self.rows[start:stop], self.distributions[start:stop], self.holdout[start:stop])

    def among(self, left: BoolArray) -> "Arms":
        """Return the arms of a later slot, which may answer what is left (n, K)."""
        if not self.rows.any():
            return self
        return self._replace(distributions=renormalized(self.distributions, left))

    def put_into(self, distributions: FloatArray) -> FloatArray:
        """Return the distributions (n, K) of the learner, with those of the arms in their rows."""
        return np.where(self.rows[:, np.newaxis], self.distributions, distributions)


def no_arms(n: int) -> Arms:
    """Return the arms of n requests that the learner answers."""
    none = np.zeros(n, np.bool_)
    return Arms(none, np.empty((n, 0)), none)


def arms_of(model: Model, options: Sequence[Options], eligible: BoolArray, held_out: BoolArray) -> Arms:
    """Return the arms of n requests.

    Args:
        model: the model.
        options: of each request.
        eligible: from `eligible_labels`.
        held_out: which requests the holdout answers, (n,).
    """
    rows = held_out | (model.definition.mode == "logging")
    if not rows.any():
        return no_arms(len(options))
    allowed = eligible if eligible.shape[1] else np.ones((len(options), len(model.definition.labels)), np.bool_)
    distributions, numbers = allowed / allowed.sum(axis=1, keepdims=True), model.answers.numbers
    for i in np.flatnonzero(rows).tolist():
        if held_out[i]:
            label = _held_label(model, options[i])
            if label is not None and allowed[i, numbers[label]]:  # otherwise uniform
                distributions[i] = 0.0
                distributions[i, numbers[label]] = 1.0
        elif (policy := options[i].policy) is not None:
            distributions[i] = 0.0
            distributions[i, [numbers[label] for label, _ in policy]] = [p for _, p in policy]
    return Arms(rows, distributions, held_out)


def action_arms(
    model: Model, options: Sequence[Options], actions: Sequence[Sequence[str]], held_out: BoolArray
) -> list[FloatArray | None]:
    """Return the distribution of another policy for each of n requests with actions; None if the learner answers.

    Args:
        model: the model.
        options: of each request.
        actions: the ids of the eligible actions of each request.
        held_out: which requests the holdout answers, (n,).
    """
    return [_action_arm(model, *each) for each in zip(options, actions, held_out.tolist(), strict=True)]


def _action_arm(model: Model, options: Options, actions: Sequence[str], held: bool) -> FloatArray | None:
    if not held and model.definition.mode != "logging":
        return None
    chances = {id_: 1.0 / len(actions) for id_ in actions}
    if held and (label := _held_label(model, options)) is not None:
        chances = {label: 1.0}
    elif not held and options.policy is not None:
        chances = dict(options.policy)
    return np.array([chances.get(id_, 0.0) for id_ in actions])


def _held_label(model: Model, options: Options) -> str | None:
    """Return the label that the holdout answers; None if it draws one."""
    holdout = model.definition.holdout
    if holdout is None or holdout.policy == "uniform":
        return None
    return options.baseline if holdout.policy == "baseline" else holdout.policy.label
