"""Prediction requests: parsed, checked against their model, and gathered into batches."""

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
    """A request for one prediction."""

    context: GivenContext
    id: PredictionId | None  # chosen by the client; None: the service generates one
    include_distribution: bool


class PredictionBatch(NamedTuple):
    """Predictions requested together, and the blocks that will store them."""

    requests: Sequence[PredictionRequest]
    contexts: Contexts  # as the learner sees them
    bounds: list[int]  # the start of each block, then the end of the last
    blocks: list[str]  # block names
    tokens: IntArray  # one per prediction
    fingerprints: list[bytes]  # one per block

    def ids(self, model: str) -> list[str]:
        """Return the wire forms of the predictions' ids; `model` is the model's name."""
        tokens, spans = self.tokens.tolist(), zip(self.blocks, pairwise(self.bounds), strict=True)
        return [wire_form(model, block, token) for block, (start, stop) in spans for token in tokens[start:stop]]


def prediction_request(request: PredictRequest) -> PredictionRequest:
    """Convert a request from its wire schema.

    Raises:
        IdentifierError: if its prediction id names another model.
    """
    given = request.prediction_id
    if given is not None:
        if given.model not in ("", request.model):
            detail = f"got an id of model {quoted(given.model)}; must be an id of model {quoted(request.model)}"
            raise IdentifierError(detail, "prediction_id")
        given = PredictionId(request.model, given.block)
    return PredictionRequest(request.context, given, request.include_distribution)


def check(model: Model, request: PredictionRequest) -> PredictionRequest:
    """Check that a request fits the model; return it.

    Raises:
        ContextLengthError: if the context has the wrong kind or length.
        ContextIndexError: if an index is out of range or repeated.
        NormExceededError: if the context exceeds the norm bound and the model rejects such contexts.
        NoDistributionError: if the request includes a distribution over too many answers to list.
    """
    if request.include_distribution and not model.answers.has_distribution:
        detail = "got true; must be false, as the model has too many rankings to list"
        raise NoDistributionError(detail, "include_distribution")
    model.norm.check(request.context, model.contexts.check(request.context))
    return request


def gather(model: Model, requests: Sequence[PredictionRequest], new_id: Callable[[], str]) -> PredictionBatch:
    """Gather checked requests into a batch.

    If any request has a client's id, each prediction of the batch gets a separate block.

    Args:
        model: the model that predicts.
        requests: at least one.
        new_id: generates the names of blocks without a client's id, and the secret of the tokens.
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
    """Return a 16-byte context hash to detect id reuse; zeros for generated ids."""
    if request.id is None:
        return bytes(16)
    return hashlib.blake2b(model.contexts.fingerprinted(request.context), digest_size=16).digest()
