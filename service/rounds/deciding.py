"""Decides requests with the state of a model, and encodes the predictions for the store."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from learners.base import BoolArray, FloatArray, State
from service.choice.choosing import Chosen, choose
from service.choice.requests import NO_OPTIONS, PredictionRequest, Requests
from service.errors import LearnerFailedError
from service.models.model import Model
from service.per_item import apply_to_valid
from service.prediction_id import OWN, SINGLE, tokens_of
from service.store.records.new_predictions import NewPredictions, released_at
from service.store.values import Seen

_log = logging.getLogger(__name__)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ImpossibleDecisionsError(Exception):
    """Some decisions of a batch are invalid, so nothing of the batch was stored.

    `sound`, (n,), marks the requests with valid decisions. It is None if the learner raised an error, so that the
    failing contexts are unknown.
    """

    def __init__(self, sound: BoolArray | None) -> None:
        super().__init__("the learner made an invalid decision")
        self.sound = sound


async def without_impossible(
    predict_each: Callable[[Sequence[_Item]], Awaitable[list[_Result | Exception]]],
    items: Sequence[_Item],
    error: ImpossibleDecisionsError,
    model: str,
) -> list[_Result | Exception]:
    """Predict the items of a failed batch again; return `LearnerFailedError` for those with an invalid decision.

    An item's answer is drawn again only because of other items, never because of what it was, so its propensity stays
    correct. If it is unknown which items failed, each half is predicted separately. `predict_each` handles further
    failures in the same way.
    """
    if error.sound is None and len(items) > 1:
        half = len(items) // 2
        return [*await predict_each(items[:half]), *await predict_each(items[half:])]
    sound = [False] if error.sound is None else error.sound.tolist()
    _log.error("the learner of model %s failed for %d of %d contexts", model, sound.count(False), len(sound))
    refusal = LearnerFailedError(f"the learner of model {model!r} cannot decide for this context")
    return await apply_to_valid(predict_each, [item if ok else refusal for item, ok in zip(items, sound, strict=True)])


class Basis(NamedTuple):
    """The inputs of decisions."""

    model: Model
    state: State  # the learner's state, which nothing changes during the decisions
    seen: Seen  # the rounds and changes in the state
    now: float  # seconds since the epoch
    keep_seconds: float  # how long the store is to keep the predictions


class Chance(NamedTuple):
    """The random numbers of n requests."""

    uniforms: FloatArray  # (n, m, U), in [0, 1), for m slots
    held_out: BoolArray | None  # (n,), the mask of the holdout's requests; None without a holdout

    def rows(self, some: slice) -> "Chance":
        """Return the random numbers of a slice of the requests."""
        return Chance(self.uniforms[some], None if self.held_out is None else self.held_out[some])


class Decided(NamedTuple):
    """The predictions for n requests with m slots each, decided but not stored."""

    requests: Requests
    chosen: Chosen
    predictions: NewPredictions  # n * m
    bounds: list[int]  # the index of the first prediction of each block, then n * m
    blocks: list[str]  # the names of the blocks
    tokens: Sequence[int]  # of the predictions, n * m
    records: list[bytes]  # one for each block


def chance_of(model: Model, requests: Requests, random: Callable[[int | tuple[int, ...]], FloatArray]) -> Chance:
    """Draw the random numbers of n requests with the same number of slots."""
    n, holdout = len(requests), model.definition.holdout
    uniforms = random((n, requests[0].options.top or 1, model.choice.uniforms))
    return Chance(uniforms, None if holdout is None else random(n) < holdout.fraction)


def decide(basis: Basis, requests: Requests, chance: Chance, new_id: Callable[[], str]) -> Decided:
    """Decide, draw and encode n checked requests, all with the same number of slots.

    Raises `ImpossibleDecisionsError` if the learner fails or its decisions cannot be stored. `new_id` generates the
    names of blocks that have no client's id, and the seed of the tokens.
    """
    choice, chosen, n, top = (
        basis.model.choice,
        chosen_by(basis, requests, chance),
        len(requests),
        requests[0].options.top,
    )
    predictions, activated = predictions_of(basis, chosen), [request.options.activated for request in requests]
    if chance.held_out is not None:
        predictions = predictions._replace(holdout=np.repeat(chance.held_out, top or 1))
    if False in activated:
        predictions = predictions._replace(inactive=np.repeat(np.logical_not(activated), top or 1))
    first = requests  # the first request of each block
    if top is not None:
        bounds, tokens = list(range(0, n * top + 1, top)), [*range(top)] * n
    elif n == 1 or not choice.shares_blocks or any([each.id is not None for each in requests]):
        bounds, tokens = list(range(n + 1)), [SINGLE] * n
    else:
        bounds = choice.records.bounds(predictions.contexts, predictions.parts)
        tokens, first = tokens_of(bounds, new_id()), [requests[start] for start in bounds[:-1]]
    blocks = [OWN + new_id() if each.id is None else each.id.block for each in first]
    fingerprints = [fingerprint(basis.model, each) for each in first]
    if predictions.holdout is not None:
        held = predictions.holdout[bounds[:-1]].tolist()
        fingerprints = [held_out(each) if is_held else each for each, is_held in zip(fingerprints, held, strict=True)]
    records = choice.records.encode_blocks(predictions, bounds, tokens, fingerprints)
    return Decided(requests, chosen, predictions, bounds, blocks, tokens, records)


def chosen_by(basis: Basis, requests: Requests, chance: Chance) -> Chosen:
    """Decide n requests and draw their answers; raise `ImpossibleDecisionsError` if the learner fails."""
    try:
        return choose(basis.model.choice, basis.state, requests, chance.held_out, chance.uniforms)
    except Exception as error:
        _log.exception("the learner failed")
        raise ImpossibleDecisionsError(None) from error


def predictions_of(basis: Basis, chosen: Chosen) -> NewPredictions:
    """Convert drawn answers to predictions; raise `ImpossibleDecisionsError` if one of them cannot be stored."""
    model, _, seen, now, keep_seconds = basis
    if False in chosen.sound.tolist():
        raise ImpossibleDecisionsError(np.logical_and.reduce(chosen.sound.reshape(chosen.candidates.n, -1), axis=1))
    return NewPredictions(
        outputs=chosen.draws.labels,
        propensities=chosen.draws.propensities,
        residual_uniforms=chosen.draws.residual_uniforms,
        evidence=chosen.evidence,
        contexts=chosen.contexts,
        predicted_at=now,
        expires_at=now + model.definition.window_seconds,
        rounds_seen=seen.round_count,
        changes_seen=seen.change_count,
        digest=seen.digest,
        parts=chosen.parts,
        released_at=released_at(now, keep_seconds),
        is_foreign=model.definition.mode == "logging",
    )


def fingerprint(model: Model, request: PredictionRequest) -> bytes:
    """Return a 16-byte hash of a request, to detect reused ids; zeros if the client did not choose the id."""
    if request.id is None and request.sticky is None:
        return bytes(16)
    asked, kind = model.choice.fingerprinted(request)
    if not kind:
        if request.options == NO_OPTIONS:
            return hashlib.blake2b(asked, digest_size=16).digest()
        asked, kind = len(asked).to_bytes(8, "little") + asked, b"with options"
    return hashlib.blake2b(asked + request.options.encode(), digest_size=16, person=kind).digest()


def held_out(mark: bytes) -> bytes:
    """Return a fingerprint with one bit flipped, which records that the holdout answered the request."""
    return mark[:-1] + bytes([mark[-1] ^ 1])
