"""Prediction requests: parsed, checked against their model, and gathered into batches."""

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, IntArray
from service.actions.definition import GivenAction
from service.candidates.requests import READING_COST, CandidateSet, read_candidates, reading_cost
from service.compute import INLINE_COST
from service.contexts.registry import GivenContext
from service.input_errors import IdentifierError, InvalidInputError, NoDistributionError
from service.models.model import Model
from service.prediction_id import OWN, SINGLE, PredictionId, tokens_of, wire_forms
from service.rounds.options import NO_OPTIONS, Options, check_options, eligible_labels, options_of
from service.schemas.rounds import PredictItem, PredictRequest
from service.slots.errors import TopTooLargeError
from service.store.records.parts import NO_PARTS, Parts
from service.wording.values import counted, quoted

_CHECK_COST = 10_000
"""Cost of checking the options of a request, in multiply-adds."""

_NUMBER_COST, _NAMED_COST = 30, 1_500
"""Costs of writing a number, or a named feature, in multiply-adds."""

_FINGERPRINT_COST = 20_000
"""Cost of the fingerprint of one request with an id, besides its context, in multiply-adds."""

_BYTES_PER_NUMBER = 16

_MOST_SLOT_BYTES = 2**22
"""Maximum bytes of the contexts and actions in all slots of a request. Each feedback reads the records of all slots."""


class PredictionRequest(NamedTuple):
    """A request for one prediction."""

    context: GivenContext
    id: PredictionId | None  # chosen by the client; None: the service generates one
    include_distribution: bool
    options: Options = NO_OPTIONS
    actions: Sequence[GivenAction] | None = None
    candidates: CandidateSet | None = None  # read from the actions by `read`


class PredictionBatch(NamedTuple):
    """Predictions requested together, and the blocks that will store them."""

    requests: Sequence[PredictionRequest]  # n
    contexts: Contexts  # n, as sent, or a vector of what was sent
    eligible: BoolArray  # (n, K), or (n, 0) if every label is eligible
    parts: Parts  # what is stored beside the contexts
    bounds: list[int]  # the start of each block, then the end of the last
    blocks: list[str]  # block names
    tokens: IntArray  # one per prediction: n, or n times the number of slots
    fingerprints: list[bytes]  # one per block

    @property
    def candidates(self) -> list[CandidateSet]:
        """The candidates of each request, for a model with actions; else nothing."""
        return [request.candidates for request in self.requests if request.candidates is not None]

    @property
    def top(self) -> int | None:
        """The number of slots of each request, the same for all; None if the answers have no slots."""
        return self.requests[0].options.top

    @property
    def inactive(self) -> BoolArray | None:
        """Which of the predictions take no feedback before their activation, (n,); None if all do."""
        found = [not request.options.activated for request in self.requests]
        return np.array(found) if any(found) else None

    def ids(self, model: str) -> list[str]:
        """Return the wire forms of the predictions' ids; `model` is the model's name."""
        tokens, spans = self.tokens.tolist(), zip(self.blocks, pairwise(self.bounds), strict=True)
        return [id_ for block, (start, stop) in spans for id_ in wire_forms(model, block, tokens[start:stop])]


def prediction_item(request: PredictItem, model: str) -> PredictionRequest:
    """Convert a request for a model without its name; raise as `prediction_request` does."""
    return _converted(request, model)


def prediction_request(request: PredictRequest) -> PredictionRequest:
    """Convert a request from its wire schema.

    Raises:
        IdentifierError: if its prediction id names another model.
    """
    return _converted(request, request.model)


def _converted(request: PredictItem, model: str) -> PredictionRequest:
    given = request.prediction_id
    if given is not None:
        if given.model not in ("", model):
            detail = f"got an id of model {quoted(given.model)}; must be an id of model {quoted(model)}"
            raise IdentifierError(detail, "prediction_id")
        given = PredictionId(model, given.block)
    return PredictionRequest(request.context, given, request.include_distribution, options_of(request), request.actions)


def checking_cost(model: Model, requests: Sequence[PredictionRequest]) -> int:
    """Return the cost of `check` for each request, in multiply-adds; some cost that needs a thread if it does."""
    cost = 0
    for request in requests:
        cost += _CHECK_COST + reading_cost(model, request.context, request.actions, INLINE_COST)
        if cost >= INLINE_COST:
            break
    return cost


def gathering_cost(model: Model, requests: Sequence[PredictionRequest]) -> int:
    """Return the cost of `gather`, in multiply-adds: it writes contexts, and hashes those of requests with ids."""
    identified = [request for request in requests if request.id is not None]
    if model.vectors is not None:
        return sum([_fingerprint_cost(request.candidates) for request in identified])
    sizes, own = (sum([model.contexts.size(each.context) for each in some]) for some in (requests, identified))
    each = _NAMED_COST if model.contexts.has_names else _NUMBER_COST
    return (sizes + own) * each + len(identified) * _FINGERPRINT_COST


def _fingerprint_cost(candidates: CandidateSet | None) -> int:
    if candidates is None:
        return 0
    features = sum([len(each.values) for each in candidates.factors]) + len(candidates.context.values)
    return features * _NAMED_COST + len(candidates.actions) * READING_COST


def check(model: Model, request: PredictionRequest) -> PredictionRequest:
    """Check that a request fits the model; return it.

    Raises:
        ContextLengthError: if the context has the wrong kind or length.
        ContextIndexError: if an index is out of range or repeated.
        NormExceededError: if the context exceeds the norm bound and the model rejects such contexts.
        NoDistributionError: if the request includes a distribution over too many answers to list.
        TopTooLargeError: if it has slots whose records are too large.
        InvalidInputError: if an option does not fit the model.
    """
    if request.options.top is not None and request.include_distribution:
        raise NoDistributionError("got true; must be false with top: each slot has its own", "include_distribution")
    checked = check_again(model, read(model, request))
    if request.include_distribution and not model.answers.has_distribution:
        detail = "got true; must be false, as the model has too many rankings to list"
        raise NoDistributionError(detail, "include_distribution")
    if request.options.top is not None:
        _check_bytes(model, checked, request.options.top)
    return checked


def all_fit(model: Model, requests: Sequence[PredictionRequest]) -> bool:
    """Return whether `check` returns each of many requests as it is, if that is fast to find."""
    if model.vectors is not None or model.norm.refuses or not model.answers.has_distribution:
        return False
    if not all([each.options is NO_OPTIONS and each.actions is None for each in requests]):  # noqa: C419  faster
        return False
    try:
        check_options(model, NO_OPTIONS)
    except InvalidInputError:
        return False
    return model.contexts.fit_together([each.context for each in requests])


def read(model: Model, request: PredictionRequest) -> PredictionRequest:
    """Read the context and the candidates of a request; return it with them. No change of the model affects this.

    Raises:
        InvalidInputError: if they do not fit the model.
    """
    candidates = read_candidates(model, request.context, request.actions, request.options.eligible)
    if candidates is not None:
        return request._replace(candidates=candidates)
    context = model.contexts.check(request.context)
    model.norm.check(context)
    return request if context is request.context else request._replace(context=context)


def _check_bytes(model: Model, request: PredictionRequest, top: int) -> None:
    """Check the size of the records of all slots. Each repeats the context, and the actions if the log keeps all."""
    candidates, actions = request.candidates, model.definition.actions
    if candidates is None or actions is None:
        each = model.contexts.size(request.context) * _BYTES_PER_NUMBER + len(model.contexts.sent(request.context))
    else:
        logged = candidates.encode() if actions.log_actions == "all" else candidates.sent
        each = len(logged) + candidates.entries // len(candidates.actions) * _BYTES_PER_NUMBER
    if top > 1 and top * each > _MOST_SLOT_BYTES:
        most = max(1, _MOST_SLOT_BYTES // each)
        raise TopTooLargeError(
            f"got {top}; the context is large, so the request may have {counted(most, 'slots')}", "top"
        )


def check_again(model: Model, request: PredictionRequest) -> PredictionRequest:
    """Check what a change of the model may have made wrong in a checked request; return it.

    Raises:
        InvalidInputError: if an option no longer fits the model.
    """
    candidates = request.candidates
    check_options(model, request.options, None if candidates is None else [each.id for each in candidates.actions])
    return request


def gather(model: Model, requests: Sequence[PredictionRequest], new_id: Callable[[], str]) -> PredictionBatch:
    """Gather checked requests, all with the same number of slots, into a batch.

    If any request has a client's id, each prediction of the batch gets a separate block.

    Args:
        model: the model that predicts.
        requests: at least one.
        new_id: generates the names of blocks without a client's id, and the secret of the tokens.
    """
    if model.vectors is not None:
        return _gathered_candidates(model, requests, new_id)
    top, given = requests[0].options.top, [request.context for request in requests]
    contexts, sent = model.contexts.gather(given), list(map(model.contexts.sent, given))
    eligible = eligible_labels(model, [request.options for request in requests])
    parts = Parts(eligible, sent if sent[0] else ()) if sent[0] or eligible.shape[1] else NO_PARTS
    if top is not None:
        bounds, tokens = _slots(len(requests), top)
    elif len(requests) == 1 or any([request.id is not None for request in requests]):  # noqa: C419  a list is faster
        bounds, tokens = list(range(len(requests) + 1)), np.full(len(requests), SINGLE)
    else:
        bounds = model.format.bounds(contexts, parts)
        tokens = tokens_of(bounds, new_id())
    first = requests if top is not None else [requests[start] for start in bounds[:-1]]
    blocks = [OWN + new_id() if request.id is None else request.id.block for request in first]
    fingerprints = [fingerprint(model, request) for request in first]
    return PredictionBatch(requests, contexts, eligible, parts, bounds, blocks, tokens, fingerprints)


def _slots(n: int, top: int) -> tuple[list[int], IntArray]:
    """Return the bounds and the tokens of n requests with slots: a block each, with the numbers of its slots."""
    return list(range(0, n * top + 1, top)), np.tile(np.arange(top), n)


def held_out(fingerprint: bytes) -> bytes:
    """Return the fingerprint of a request that the holdout answers, so that a repeated request finds this out."""
    return fingerprint[:-1] + bytes([fingerprint[-1] ^ 1])


def _gathered_candidates(
    model: Model, requests: Sequence[PredictionRequest], new_id: Callable[[], str]
) -> PredictionBatch:
    """Gather requests with actions; each prediction has its own block."""
    n, top = len(requests), requests[0].options.top
    blocks = [OWN + new_id() if request.id is None else request.id.block for request in requests]
    fingerprints = [fingerprint(model, request) for request in requests]
    none, every = Contexts.sparse([0] * n, np.empty(0, np.int64), np.empty(0)), np.ones((n, 0), np.bool_)
    bounds, tokens = (list(range(n + 1)), np.full(n, SINGLE)) if top is None else _slots(n, top)
    return PredictionBatch(requests, none, every, NO_PARTS, bounds, blocks, tokens, fingerprints)


def fingerprint(model: Model, request: PredictionRequest) -> bytes:
    """Return a 16-byte hash of what a request asks, to detect id reuse; zeros for generated ids."""
    if request.id is None:
        return bytes(16)
    if request.candidates is not None:
        parts = request.candidates.encode() + request.options.encode()
        return hashlib.blake2b(parts, digest_size=16, person=b"with actions").digest()
    context = model.contexts.fingerprinted(request.context)
    if request.options == NO_OPTIONS:
        return hashlib.blake2b(context, digest_size=16).digest()
    parts = len(context).to_bytes(8, "little") + context + request.options.encode()
    return hashlib.blake2b(parts, digest_size=16, person=b"with options").digest()
