"""Predictions asked for: read from requests, checked against their model, and gathered into batches."""

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import Contexts, IntArray
from learners.mathematics.norms import within_bound_unchecked
from service.contexts.registry import GivenContext
from service.errors import IdentifierError, NoDistributionError
from service.models.model import Model
from service.prediction_id import OWN, SINGLE, PredictionId, tokens_of, wire_form
from service.schemas.rounds import PredictRequest
from service.wording.values import quoted


class PredictionRequest(NamedTuple):
    """One prediction asked for."""

    context: GivenContext
    id: PredictionId | None  # the client's
    include_distribution: bool


class PredictionBatch(NamedTuple):
    """Predictions asked for together, and the blocks that they are to be kept in."""

    requests: Sequence[PredictionRequest]
    contexts: Contexts  # as the learner is to see them
    bounds: list[int]  # where each block begins, and the end
    blocks: list[str]  # their names
    tokens: IntArray  # of the predictions
    fingerprints: list[bytes]  # of the blocks

    def ids(self, model: str) -> list[str]:
        """Return the wire forms of the predictions' ids, of the model of that name."""
        tokens, spans = self.tokens.tolist(), zip(self.blocks, pairwise(self.bounds), strict=True)
        return [wire_form(model, block, token) for block, (start, stop) in spans for token in tokens[start:stop]]


def prediction_request(request: PredictRequest) -> PredictionRequest:
    """Return what a request asks for.

    Raises:
        IdentifierError: if its id names another model.
    """
    given = request.prediction_id
    if given is not None:
        if given.model not in ("", request.model):
            detail = f"got an id of model {quoted(given.model)}; must be an id of model {quoted(request.model)}"
            raise IdentifierError(detail, "prediction_id")
        given = PredictionId(request.model, given.block)
    return PredictionRequest(request.context, given, request.include_distribution)


def check(model: Model, request: PredictionRequest) -> PredictionRequest:
    """Refuse what does not fit the model.

    Raises:
        ContextLengthError: if the context is of another kind, or has not as many numbers as it should.
        ContextIndexError: if an index is out of range, or there twice.
        NormExceededError: if it is beyond the bound, and the model rejects such.
        NoDistributionError: if a distribution is asked for, and the answers are too many.
    """
    if request.include_distribution and not model.answers.has_distribution:
        detail = "got true; must be false, as the model has too many rankings to list"
        raise NoDistributionError(detail, "include_distribution")
    model.norm.check(request.context, model.contexts.check(request.context))
    return request


def gather(model: Model, requests: Sequence[PredictionRequest], new_id: Callable[[], str]) -> PredictionBatch:
    """Return the batch of checked requests; what has an id of the client's is in a block of its own.

    Args:
        model: that is to predict.
        requests: at least one.
        new_id: names the other blocks, and makes the secret of their tokens.
    """
    features = model.definition.features
    contexts = model.contexts.gather([request.context for request in requests])
    contexts = within_bound_unchecked(contexts, features.norm, features.norm_bound)
    if len(requests) == 1 or any([request.id is not None for request in requests]):  # noqa: C419  a list is faster
        bounds, tokens = list(range(len(requests) + 1)), np.full(len(requests), SINGLE)
    else:
        bounds = model.format.bounds(contexts)
        tokens = tokens_of(bounds, new_id())
    first = [requests[start] for start in bounds[:-1]]
    blocks = [OWN + new_id() if request.id is None else request.id.block for request in first]
    fingerprints = [_fingerprint(model, request) for request in first]
    return PredictionBatch(requests, contexts, bounds, blocks, tokens, fingerprints)


def _fingerprint(model: Model, request: PredictionRequest) -> bytes:
    """16 bytes that tell whether two requests with the same id are one; zeros where the id is ours."""
    if request.id is None:
        return bytes(16)
    return hashlib.blake2b(model.contexts.fingerprinted(request.context), digest_size=16).digest()
