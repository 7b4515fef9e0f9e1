"""Reads and checks the candidates of a request."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from service.actions.definition import MOST_ACTIONS, GivenAction, repeated
from service.actions.errors import (
    ActionsMissingError,
    ActionsNotAllowedError,
    DuplicateActionError,
    NoActionsError,
    TooManyActionsError,
    UnknownActionError,
)
from service.actions.factors import Factors
from service.actions.logged import as_sent, to_json
from service.actions.vectors import MOST_ENTRIES, ActionVectors, NamedFactors
from service.contexts.canonical import canonical
from service.contexts.kind import Part
from service.contexts.named import MOST_FEATURES
from service.input_errors import TooManyFeaturesError
from service.models.model import Model
from service.wording.values import quoted

READING_COST = 20_000
"""Cost of reading an action with some features, in multiply-adds."""

_Item = TypeVar("_Item")

_CANDIDATES_AT_ONCE = 10_000
"""Maximum candidates that are decided together, unless one request has more."""


class CandidateSet(NamedTuple):
    """The candidates of one checked request: those of its actions that are eligible."""

    given: Any  # the context
    context: Factors
    actions: Sequence[GivenAction]
    factors: Sequence[Factors]
    entries: int  # an upper bound on the entries of all vectors

    @property
    def sent(self) -> bytes:
        """The JSON of the context."""
        return to_json(as_sent(self.given))

    def without(self, chosen: int) -> "CandidateSet":
        """Return the candidates that are left after one of them is chosen."""
        actions, factors = ([*each[:chosen], *each[chosen + 1 :]] for each in (self.actions, self.factors))
        return self._replace(actions=actions, factors=factors)

    def encode(self) -> bytes:
        """Return bytes that differ between requests with different contexts or actions."""
        return canonical([as_sent(self.given), [[each.id, as_sent(each.features)] for each in self.actions]])


def reading_cost(model: Model, context: Any, actions: Sequence[GivenAction] | None, enough: int) -> int:
    """Return the cost of reading a request, in multiply-adds; some cost of at least `enough` if it is that high."""
    cost = model.contexts.reading_cost(context)
    if model.vectors is not None and actions is not None:
        of_features = model.vectors.actions.reading_cost
        for action in actions:
            cost += max(READING_COST, of_features(action) // 2)  # many come from the cache
            if cost >= enough:
                break
    return cost


def read_candidates(
    model: Model, context: Any, actions: Sequence[GivenAction] | None, eligible: Collection[str] | None
) -> CandidateSet | None:
    """Return the candidates of a request; None if the model has labels, and the request no actions.

    Raises:
        InvalidInputError: if they do not fit the model; names the field.
    """
    if model.vectors is None:
        if actions is not None:
            raise ActionsNotAllowedError("the model has labels, so its requests bring no actions", "actions")
        return None
    if actions is None:
        raise ActionsMissingError("missing; send the actions to choose from, each with id and features", "actions")
    _check_ids(actions)
    positions = _eligible(actions, eligible)
    vectors, reader = model.vectors, model.vectors.actions
    of_context = vectors.contexts.read(context, "context")
    factors = [reader.read_action(actions[i], f"actions.{i}.features") for i in positions]
    return CandidateSet(
        context, of_context, [actions[i] for i in positions], factors, _entries(vectors, of_context, factors, positions)
    )


def _check_ids(actions: Sequence[GivenAction]) -> None:
    if not actions:
        raise NoActionsError("got no actions; send at least one", "actions")
    if len(actions) > MOST_ACTIONS:
        raise TooManyActionsError(f"got {len(actions)} actions; must be at most {MOST_ACTIONS}", "actions")
    ids = [action.id for action in actions]
    if len(set(ids)) < len(ids):
        again = next(repeated(ids))
        raise DuplicateActionError(f"got {quoted(ids[again])} twice; ids must be unique", f"actions.{again}.id")


def _eligible(actions: Sequence[GivenAction], eligible: Collection[str] | None) -> Sequence[int]:
    """Return the positions of the actions that may be chosen."""
    if eligible is None:
        return range(len(actions))
    allowed, known = set(eligible), {action.id for action in actions}
    for i, each in enumerate(eligible):
        if each not in known:
            raise UnknownActionError(f"got {quoted(each)}; the request has no action with this id", f"eligible.{i}")
    return [i for i, action in enumerate(actions) if action.id in allowed]


def _entries(vectors: ActionVectors, context: Factors, factors: Sequence[Factors], positions: Sequence[int]) -> int:
    """Return the number of entries of all vectors, products included, if that is not too many."""
    most, total = max(factors, key=lambda each: len(each.values)), sum([len(each.values) for each in factors])
    if vectors.entries(context, most) > MOST_FEATURES:
        i = next(i for i, each in zip(positions, factors, strict=True) if each is most)
        detail = f"got {vectors.entries(context, most)} features, products with the context included; must be at most"
        raise TooManyFeaturesError(f"{detail} {MOST_FEATURES}", f"actions.{i}.features")
    entries = total * (1 + len(context.values) * vectors.crosses)
    if entries > MOST_ENTRIES:
        detail = f"got {entries:,} features of all actions, products with the context included; must be at most"
        raise TooManyFeaturesError(f"{detail} {MOST_ENTRIES:,}", "actions")
    return entries


def candidate_parts(model: Model, candidates: CandidateSet) -> Iterator[list[Part]]:
    """Yield the features of each candidate's vector.

    Raises:
        TypeError: if the model has labels.
    """
    vectors = model.vectors
    if vectors is None:
        raise TypeError(f"model {model.name!r} has no actions")
    context = NamedFactors(vectors.contexts.names(candidates.given), candidates.context)
    for action, factors in zip(candidates.actions, candidates.factors, strict=True):
        yield vectors.parts(context, NamedFactors(vectors.actions.names(action.features), factors))


def chunks(items: Sequence[_Item], sets: Sequence[CandidateSet]) -> Iterator[Sequence[_Item]]:
    """Divide requests, in order, into parts that may be decided together."""
    start, candidates, entries = 0, 0, 0
    for i, each in enumerate(sets):
        candidates, entries = candidates + len(each.actions), entries + each.entries
        if i > start and (candidates > _CANDIDATES_AT_ONCE or entries > MOST_ENTRIES):
            yield items[start:i]
            start, candidates, entries = i, len(each.actions), each.entries
    yield items[start:]
