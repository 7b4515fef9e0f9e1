"""A request for one prediction: its context, its candidates and its options."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from service.actions.definition import GivenAction
from service.actions.factors import Factors
from service.contexts.registry import GivenContext
from service.error_messages.values import quoted
from service.errors import IdentifierError
from service.prediction_id import PredictionId
from service.schemas.rounds import PredictItem


class Options(NamedTuple):
    """The optional parts of a request that change how it is answered."""

    eligible: tuple[str, ...] | None = None  # None: every label of the model, or every action of the request
    baseline: str | None = None  # the client's own choice, which may be the answer in the holdout
    policy: tuple[tuple[str, float], ...] | None = None  # probabilities to draw from, in logging mode
    activated: bool = True  # whether the prediction accepts feedback immediately
    costs: tuple[tuple[str, float], ...] | None = None  # of labels, in place of the model's
    cost_weight: float | None = None  # λ, in place of the model's
    top: int | None = None  # the number of slots (`service.choice.choice`); None for one answer without slots

    def encode(self) -> bytes:
        """Return bytes that are equal only for equal options; the order of names does not matter."""
        eligible = None if self.eligible is None else sorted(self.eligible)
        slots = [] if self.top is None else [self.top]
        named: list[Any] = [eligible, self.baseline, sorted(self.policy or ()), self.activated, *slots]
        if (self.costs, self.cost_weight) != (None, None):
            named.append({"costs": sorted(self.costs or ()), "cost_weight": self.cost_weight})
        return json.dumps(named).encode()


NO_OPTIONS = Options()


class ParsedActions(NamedTuple):
    """The context and the eligible actions of a request, with their features."""

    given: Any  # the context, as the API parsed it
    context: Factors
    actions: Sequence[GivenAction]
    factors: Sequence[Factors]
    entries: int  # an upper bound on the entries of all candidates' vectors


class PredictionRequest(NamedTuple):
    """A request for one prediction."""

    context: GivenContext
    id: PredictionId | None  # chosen by the client; if None, the service generates one
    include_distribution: bool
    options: Options = NO_OPTIONS
    actions: Sequence[GivenAction] | None = None
    parsed: ParsedActions | None = None  # set by `ActionChoice.parse`
    sticky: bytes | None = None  # what the id is derived from, with the context and the model: see `rounds.stickiness`


Requests: TypeAlias = Sequence[PredictionRequest]


def prediction_item(request: PredictItem, model: str) -> PredictionRequest:
    """Convert a request from its wire schema; raise `IdentifierError` if its prediction id names another model."""
    given = request.prediction_id
    if given is not None:
        if given.model not in ("", model):
            detail = f"got an id of model {quoted(given.model)}; must be an id of model {quoted(model)}"
            raise IdentifierError(detail, "prediction_id")
        given = PredictionId(model, given.block)
    return PredictionRequest(request.context, given, request.include_distribution, options_of(request), request.actions)


def options_of(request: PredictItem) -> Options:
    """Return the options of a request."""
    named = request.eligible, request.baseline, request.policy, request.costs, request.cost_weight, request.top
    if request.activated and named.count(None) == len(named):
        return NO_OPTIONS
    eligible = None if request.eligible is None else tuple(request.eligible)
    policy = None if request.policy is None else tuple(request.policy.items())
    costs = None if request.costs is None else tuple(request.costs.items())
    return Options(eligible, request.baseline, policy, request.activated, costs, request.cost_weight, request.top)
