"""The choice among the actions of each request."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from learners.actions import base
from learners.actions.base import ActionRounds, AnyActionLearner
from learners.base import NO_PRICES, BoolArray, Contexts, Draws, FloatArray, IntArray, Prices, Rounds, State
from learners.mathematics.exploration import draw_among
from learners.mathematics.limits import NO_LIMITS, obey_each
from learners.mathematics.preparation import Preparation
from service import costs, errors
from service.actions.definition import MOST_ACTIONS, ActionsDefinition, GivenAction, repeated
from service.actions.encoder import MOST_TOGETHER, ActionVectors, NamedFactors
from service.actions.factors import Factors
from service.actions.logged import decode, encode, parsed, with_numbers
from service.choice.answers import NOTHING, ActionAnswers, Shown
from service.choice.candidates import EVERY, Candidates, count_eligible
from service.choice.choice import Choice, Choices, LoggedChoice
from service.choice.overrides import Override, with_override
from service.choice.prices import Bills, bills_of, budget_of, check_weighs_costs, check_weight
from service.choice.requests import Options, ParsedActions, PredictionRequest, Requests
from service.choice.rules import RuleLimits
from service.contexts.canonical import canonical
from service.contexts.kind import FeatureEntry
from service.contexts.registry import context_kind
from service.contexts.vectors import MOST_ENTRIES, from_bytes, from_row
from service.error_messages.values import quoted
from service.schemas.models import ModelDefinition
from service.store.records.codecs import AnswerArray, label_codec
from service.store.records.optional_fields import LogRows, OptionalFields
from service.store.records.records import RecordFormat

_BYTES_PER_NUMBER = 16  # bytes of one entry of a vector: its index and its value
_CANDIDATES_AT_ONCE = 10_000  # maximum candidates decided together; any request fits


class ActionChoice(Choice):
    """Chooses among the actions of a request.

    `since` is the number of the change that set the learner: see `RecordFormat`.
    """

    things = "actions"
    shares_blocks = False
    active = EVERY
    limits = NO_LIMITS
    label_costs = np.empty(0)
    uniforms = 1

    def __init__(
        self, definition: ModelDefinition, actions: ActionsDefinition, learner: AnyActionLearner, since: int
    ) -> None:
        joint = actions.features
        self.definition, self._learner, self._logs_all = definition, learner, actions.log_actions == "all"
        self._vectors = ActionVectors(actions, definition.features)
        self.answers = ActionAnswers((), label_codec(MOST_ACTIONS))
        self.contexts, self._kind = context_kind(definition.features), self._vectors.actions.kind
        self.preparation = Preparation(joint.norm, joint.norm_bound, joint.intercept, self._vectors.size)
        self.rules = None if definition.rules is None else RuleLimits(definition.rules, None)
        self.budget = budget_of(definition)
        self.records = RecordFormat(self.answers.codec, 1, self._vectors.codec, has_actions=True, since=since)

    @property
    def table_bytes(self) -> int:
        return self._vectors.cache_bytes

    def reading_cost(self, request: PredictionRequest, enough: int) -> int:
        cost, of_features = self.contexts.reading_cost(request.context), self._vectors.actions.reading_cost
        for action in request.actions or ():
            cost += max(costs.ACTION, of_features(action) // 2)  # half, because many actions are cached
            if cost >= enough:
                break
        return cost

    def parse(self, request: PredictionRequest) -> PredictionRequest:
        actions = request.actions
        if actions is None:
            detail = "missing; send the actions to choose from, each with id and features"
            raise errors.MissingFieldError(detail, "actions")
        _check_ids(actions)
        self._check_action_costs(actions)
        positions = _eligible(actions, request.options.eligible)
        context, reader = self._vectors.contexts.read(request.context, "context"), self._vectors.actions
        factors = [reader.read_action(actions[i], f"actions.{i}.features") for i in positions]
        entries, eligible = self._entries(context, factors, positions), [actions[i] for i in positions]
        return request._replace(parsed=ParsedActions(request.context, context, eligible, factors, entries))

    def _entries(self, context: Factors, factors: Sequence[Factors], positions: Sequence[int]) -> int:
        """Return the entries of all vectors; raise `TooManyFeaturesError` if a limit is exceeded."""
        each = self._vectors.entries(context, factors)
        if each.max() > MOST_ENTRIES:
            i = int(each.argmax())
            detail = f"got {each[i]:,} features, vectors and products with the context included; must"
            field = f"actions.{positions[i]}.features"
            raise errors.TooManyFeaturesError(f"{detail} be at most {MOST_ENTRIES:,}", field)
        if (entries := int(each.sum())) > MOST_TOGETHER:
            detail = f"got {entries:,} features of all actions, products with the context included; must be at most"
            raise errors.TooManyFeaturesError(f"{detail} {MOST_TOGETHER:,}", "actions")
        return entries

    def _check_action_costs(self, actions: Sequence[GivenAction]) -> None:
        costs = [action.cost for action in actions]
        if self._learner.weighs_costs and (self.definition.budget is None or None not in costs):
            return
        for i, cost in enumerate(costs):
            if cost is not None:
                check_weighs_costs(self._learner, f"actions.{i}.cost")
            elif self.definition.budget is not None:
                raise errors.MissingFieldError("missing; the model has a budget", f"actions.{i}.cost")

    def check_prices(self, options: Options) -> None:
        if options.costs is not None:
            raise errors.InvalidInputError("must be left out: each action has its own cost", "costs")
        check_weighs_costs(self._learner, "cost_weight")
        check_weight(self.definition, options)

    def count(self, request: PredictionRequest) -> int:
        return len(_parsed(request).actions)

    def check_names(self, request: PredictionRequest) -> None:
        options, known = request.options, self.positions(request)
        named = [(id_, "policy") for id_, _ in options.policy or ()]
        named += [(options.baseline, "baseline")] if options.baseline is not None else []
        for id_, field in named:
            if id_ not in known:
                detail = f"got {quoted(id_)}; the request has no eligible action with this id"
                raise errors.UnknownActionError(detail, field)
        if options.policy is not None:
            self._check_policy(options)

    def slot_bytes(self, request: PredictionRequest) -> tuple[int, int]:
        read = _parsed(request)
        sent, logged = len(self._sent(read)), len(self._encoded(read)) if self._logs_all else 0
        return sent, logged + self.context_bytes(request)

    def context_bytes(self, request: PredictionRequest) -> int:
        read = _parsed(request)
        return read.entries // len(read.actions) * _BYTES_PER_NUMBER

    def fingerprinted(self, request: PredictionRequest) -> tuple[bytes, bytes]:
        return self._encoded(_parsed(request)), b"with actions"

    def positions(self, request: PredictionRequest) -> Mapping[str, int]:
        return {action.id: position for position, action in enumerate(_parsed(request).actions)}

    def show(self, requests: Requests, outputs: AnswerArray) -> list[Shown]:
        chosen = zip(requests, outputs.tolist(), strict=True)
        return [Shown(_parsed(request).actions[position].id, None) for request, position in chosen]

    def distribution(self, request: PredictionRequest, p: FloatArray, eligible: BoolArray) -> dict[str, float]:
        named = zip([action.id for action in _parsed(request).actions], p.tolist(), strict=True)
        return {id_: share for i, (id_, share) in enumerate(named) if not eligible.size or eligible[i]}

    def slices(self, requests: Requests) -> list[slice]:
        found, start, candidates, entries = list[slice](), 0, 0, 0
        for i, each in enumerate(map(_parsed, requests)):
            candidates, entries = candidates + len(each.actions), entries + each.entries
            if i > start and (candidates > _CANDIDATES_AT_ONCE or entries > MOST_TOGETHER):
                found.append(slice(start, i))
                start, candidates, entries = i, len(each.actions), each.entries
        return [*found, slice(start, len(requests))]

    def deciding_cost(self, requests: Requests) -> int:
        sets = list(map(_parsed, requests))
        entries, candidates = sum([each.entries for each in sets]), sum([len(each.actions) for each in sets])
        each = costs.CANDIDATE + self._learner.decide_cost(entries // candidates + 1)
        rules = 0 if self.rules is None else sum([self.rules.cost(len(one.actions)) for one in sets])
        return rules + entries * costs.CANDIDATE_ENTRY + candidates * each

    def candidates(self, requests: Requests, cost_weight: float) -> Candidates:
        sets = list(map(_parsed, requests))
        starts = np.zeros(len(sets) + 1, np.int64)
        np.cumsum([len(each.actions) for each in sets], out=starts[1:])
        factors = [each for one in sets for each in one.factors]
        vectors, limits = self._vectors.join([each.context for each in sets], factors, starts), NO_LIMITS
        if self.rules is not None:
            limits = self.rules.of_tags([action.tag for one in sets for action in one.actions])
        return Candidates(starts, EVERY, vectors, limits, self._prices(requests, sets, cost_weight))

    def _prices(self, requests: Requests, sets: Sequence[ParsedActions], cost_weight: float) -> Prices:
        costs = [action.cost for one in sets for action in one.actions]
        if self.definition.budget is None and costs.count(None) == len(costs):
            return NO_PRICES
        options = [each.options.cost_weight for each in requests]
        weights = np.array([cost_weight if weight is None else weight for weight in options])
        return Prices(weights, np.array([[cost or 0.0 for cost in costs]]))

    def decide(self, state: State, candidates: Candidates) -> tuple[FloatArray, FloatArray]:
        starts, eligible, vectors, limits, prices = candidates
        flat = base.Candidates(self.prepared(vectors), starts, eligible, prices)
        counts = count_eligible(starts, eligible).astype(np.float64)[:, np.newaxis]
        probabilities = self._learner.decide_unchecked(state, flat)
        obey_each(limits, starts, eligible, probabilities)
        return probabilities, counts

    def choose(self, state: State, candidates: Candidates, override: Override | None, uniforms: FloatArray) -> Choices:
        probabilities, evidence = self.decide(state, candidates)
        probabilities = with_override(probabilities, candidates.starts, override)
        draws = Draws(*draw_among(probabilities, candidates.starts, uniforms[:, 0]))
        return Choices(probabilities, evidence, draws, np.isfinite(draws.propensities))

    def stored(
        self, requests: Requests, candidates: Candidates, chosen: IntArray, probabilities: FloatArray | None
    ) -> tuple[Contexts, OptionalFields]:
        sets, eligible = list(map(_parsed, requests)), candidates.eligible
        kept = list[bytes]()
        for one, k, (start, stop) in zip(sets, chosen.tolist(), pairwise(candidates.starts.tolist()), strict=True):
            left = np.flatnonzero(eligible[start:stop]).tolist() if eligible.size else range(stop - start)
            p: list[Any] = [None] * (stop - start) if probabilities is None else probabilities[start:stop].tolist()
            distribution = [p[j] for j in left] if self._logs_all else None
            kept.append(encode(self._kind, [one.actions[j] for j in left], left.index(k), distribution))
        places, (weights, costs) = candidates.starts[:-1] + chosen, candidates.prices
        prices = np.column_stack([weights, costs[0, places]]) if len(weights) else np.empty((0, 0))
        if len(weights):
            prices[[all(action.cost is None for action in one.actions) for one in sets]] = np.nan
        parts = OptionalFields(np.ones((len(sets), 0), np.bool_), list(map(self._sent, sets)), kept, prices)
        return _rows(candidates.contexts, places), parts

    def bills(self, rows: LogRows) -> Bills | None:
        return bills_of(rows, self.definition, None)

    def logged(self, rows: LogRows, i: int) -> LoggedChoice:
        actions = decode(self._kind, rows.parts.actions[i], from_row(rows.contexts, i, self._vectors.hashed))
        stored, numbers = parsed(rows.parts.sent[i])
        context = self.contexts.whole(stored, from_bytes(numbers))
        return LoggedChoice(Shown(actions.chosen, None), NOTHING, context, actions)

    def counts(self, rows: LogRows) -> IntArray:
        return np.array([parsed(each)[0]["n"] for each in rows.parts.actions], np.int64)

    def learned(self, state: State, rounds: Rounds) -> State:
        counts = rounds.evidence[:, 0].astype(np.int64)
        chosen = ActionRounds(rounds.contexts, rounds.rewards, rounds.propensities, counts)
        return self._learner.fold_unchecked(state, chosen)

    def candidate_features(self, request: PredictionRequest) -> Iterator[list[FeatureEntry]]:
        """Yield, for each candidate of a parsed request, the features of its vector."""
        read = _parsed(request)
        context = NamedFactors(self._vectors.contexts.names(read.given), read.context)
        for action, factors in zip(read.actions, read.factors, strict=True):
            yield self._vectors.feature_entries(
                context, NamedFactors(self._vectors.actions.names(action.features), factors)
            )

    def _sent(self, read: ParsedActions) -> bytes:
        stored, numbers = self.contexts.split(read.given)
        return with_numbers(stored, [numbers])

    def _encoded(self, read: ParsedActions) -> bytes:
        split = [self.contexts.ordered(read.given), *(self._kind.ordered(each.features) for each in read.actions)]
        shown = [
            [each.id, stored, *(part for part in (each.tag, each.cost) if part is not None)]
            for each, (stored, _) in zip(read.actions, split[1:], strict=True)
        ]
        return canonical([split[0][0], shown]) + b"".join(numbers for _, numbers in split)

    def contributions(self, state: State, vector: Contexts) -> FloatArray:
        """Return the contribution of each entry of a prepared vector to its candidate's score, (m,)."""
        return self._learner.contributions(state, vector)


def _parsed(request: PredictionRequest) -> ParsedActions:
    if request.parsed is None:
        raise TypeError("the actions of the request have not been parsed")
    return request.parsed


def _check_ids(actions: Sequence[GivenAction]) -> None:
    if not actions:
        raise errors.NoActionsError("got no actions; send at least one", "actions")
    if len(actions) > MOST_ACTIONS:
        raise errors.TooManyActionsError(f"got {len(actions)} actions; must be at most {MOST_ACTIONS}", "actions")
    ids = [action.id for action in actions]
    if len(set(ids)) < len(ids):
        again = next(repeated(ids))
        raise errors.DuplicateActionError(f"got {quoted(ids[again])} twice; ids must be unique", f"actions.{again}.id")


def _eligible(actions: Sequence[GivenAction], eligible: Collection[str] | None) -> Sequence[int]:
    if eligible is None:
        return range(len(actions))
    allowed, known = set(eligible), {action.id for action in actions}
    for i, each in enumerate(eligible):
        if each not in known:
            detail = f"got {quoted(each)}; the request has no action with this id"
            raise errors.UnknownActionError(detail, f"eligible.{i}")
    return [i for i, action in enumerate(actions) if action.id in allowed]


def _rows(vectors: Contexts, rows: IntArray) -> Contexts:
    spans = [slice(vectors.starts[i], vectors.starts[i + 1]) for i in rows.tolist()]
    starts = np.zeros(len(spans) + 1, np.int64)
    np.cumsum([span.stop - span.start for span in spans], out=starts[1:])
    indices, values = (np.concatenate([column[span] for span in spans]) for column in (vectors.indices, vectors.values))
    return Contexts(starts, indices, values, False)
