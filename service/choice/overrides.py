"""Policies that answer instead of the learner: the holdout, and the client's own policy in logging mode."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray
from service.choice.candidates import Candidates, uniform
from service.choice.requests import Options, PredictionRequest, Requests
from service.schemas.models import ModelDefinition


class Override(NamedTuple):
    """Which requests of a batch another policy answers instead of the learner, and that policy's probabilities."""

    rows: BoolArray  # (n,), the mask of these requests
    probabilities: FloatArray  # (m,), one per candidate of the batch; unused outside `rows`


def with_override(probabilities: FloatArray, starts: IntArray, override: Override | None) -> FloatArray:
    """Return n distributions, concatenated in (m,), which begin at starts (n + 1,), some replaced by the override's."""
    if override is None:
        return probabilities
    return np.where(np.repeat(override.rows, np.diff(starts)), override.probabilities, probabilities)


def override_of(
    definition: ModelDefinition,
    requests: Requests,
    candidates: Candidates,
    held_out: BoolArray | None,
    positions: Callable[[PredictionRequest], Mapping[str, int]],
) -> Override | None:
    """Return which of n requests another policy answers, and how; None if the learner answers all of them.

    `held_out`, (n,), marks the requests of the holdout; it is None if the model has no holdout. `positions` returns the
    position of each candidate of a request by its label or id.
    """
    if held_out is None:
        if definition.mode != "logging":
            return None
        held_out = np.zeros(len(requests), np.bool_)
    rows = held_out | (definition.mode == "logging")
    if not rows.any():
        return None
    probabilities = uniform(candidates.starts, candidates.eligible)
    for i in np.flatnonzero(rows).tolist():
        own, at = probabilities[candidates.starts[i] : candidates.starts[i + 1]], positions(requests[i])
        policy = _policy(definition, requests[i].options, bool(held_out[i]))
        if policy and all(own[at[name]] > 0.0 for name in policy):  # else it stays uniform, as for an ineligible label
            own[:] = 0.0
            own[[at[name] for name in policy]] = list(policy.values())
    return Override(rows, probabilities)


def _policy(definition: ModelDefinition, options: Options, held_out: bool) -> dict[str, float]:
    """Return the other policy's probabilities by label or id; nothing if that policy is uniform."""
    if not held_out:
        return dict(options.policy or ())
    holdout = definition.holdout
    if holdout is None or holdout.policy == "uniform":
        return {}
    label = options.baseline if holdout.policy == "baseline" else holdout.policy.label
    return {} if label is None else {label: 1.0}
