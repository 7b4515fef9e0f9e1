"""Decides and draws the answers to several requests, slot by slot: each slot chooses among the remaining candidates."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from learners.base import BoolArray, Contexts, Draws, FloatArray, State
from service.choice.candidates import Candidates, conditioned, without
from service.choice.choice import Choice
from service.choice.overrides import override_of
from service.choice.requests import Requests
from service.store.records.optional_fields import ANOTHERS, OptionalFields

_T = TypeVar("_T", bound=np.generic)
_Part = TypeVar("_Part")


class Chosen(NamedTuple):
    """The answers in m slots of n requests, drawn but not stored. Rows are ordered by request, then by slot."""

    draws: Draws  # n * m
    evidence: FloatArray  # (n * m, E)
    sound: BoolArray  # (n * m,), whether propensity and evidence are finite
    contexts: Contexts  # to be stored: n * m, or n if the slots of a request share its context
    parts: OptionalFields  # stored beside the contexts
    candidates: Candidates  # for the first slot
    probabilities: FloatArray  # of these candidates
    left_out: Sequence[list[str]] = ()  # the rules that each answer left out; () if no answer left out any


def choose(
    choice: Choice, state: State, requests: Requests, held_out: BoolArray | None, uniforms: FloatArray
) -> Chosen:
    """Choose the answers to n parsed requests with m slots each.

    Each request has at least m eligible candidates. `held_out`, (n,), marks the requests of the holdout; it is None if
    the model has no holdout. `uniforms` is (n, m, U), in [0, 1).
    """
    candidates = choice.candidates(requests, choice.cost_weight(state))
    override = override_of(choice.definition, requests, candidates, held_out, choice.positions)
    slots, starts = list[Chosen](), candidates.starts
    for slot in range(uniforms.shape[1]):
        if slot:
            candidates = candidates._replace(eligible=without(starts, candidates.eligible, slots[-1].draws.labels))
            if override is not None:
                left = conditioned(override.probabilities, starts, candidates.eligible)
                override = override._replace(probabilities=left)
        args = state, candidates, override, np.ascontiguousarray(uniforms[:, slot])
        distributions, evidence, draws, sound = choice.choose(*args)
        probabilities = distributions.reshape(-1)
        stored = choice.stored(requests, candidates, draws.labels, probabilities)
        if override is not None:
            weights = stored[1].prices[:, :1]
            np.copyto(weights, ANOTHERS, where=override.rows[: len(weights), np.newaxis] & ~np.isnan(weights))
        left_out = choice.left_out(candidates, override, probabilities)
        slots.append(Chosen(draws, evidence, sound, *stored, candidates, probabilities, left_out))
    return slots[0] if len(slots) == 1 else _together(slots)


def _together(slots: Sequence[Chosen]) -> Chosen:
    draws, evidence, sound, contexts, parts, _, _, left_out = zip(*slots, strict=True)
    eligible, sent, actions, prices, costs = zip(*parts, strict=True)
    last = eligible[-1]  # the mask of the first slot may be (n, 0), which means all
    masks = [each if each.shape == last.shape else np.ones_like(last) for each in eligible]
    return Chosen(
        Draws(*map(_rows, zip(*draws, strict=True))),
        _rows(evidence),
        _rows(sound),
        _contexts(contexts),
        OptionalFields(_rows(masks), _interleaved(sent), _interleaved(actions), _rows(prices), _interleaved(costs)),
        slots[0].candidates,
        slots[0].probabilities,
        _interleaved([each or [[]] * slots[0].candidates.n for each in left_out]) if any(left_out) else (),
    )


def _rows(slots: Sequence[npt.NDArray[_T]]) -> npt.NDArray[_T]:
    """Return the values of m slots, each (n, ...), as rows (n * m, ...)."""
    return np.stack(slots, axis=1).reshape(len(slots) * len(slots[0]), *slots[0].shape[1:])


def _interleaved(slots: Sequence[Sequence[_Part]]) -> list[_Part]:
    return [each for row in zip(*slots, strict=True) for each in row]


def _contexts(slots: Sequence[Contexts]) -> Contexts:
    """Return the contexts of m slots, n each, as n * m contexts in new arrays; or the n that all slots share."""
    if all([each is slots[0] for each in slots]):
        return slots[0]
    if slots[0].shared:
        matrices = [each.values.reshape(each.n, -1) for each in slots]
        return Contexts.dense(np.stack(matrices, axis=1).reshape(len(slots) * slots[0].n, -1))
    rows = [each.rows(i, i + 1) for i in range(slots[0].n) for each in slots]
    lengths = np.array([len(row.values) for row in rows], np.int64)
    return Contexts.sparse(
        lengths, np.concatenate([row.indices for row in rows]), np.concatenate([row.values for row in rows])
    )
