"""The choice of one label of a model, or of a set or a ranking of its labels."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from learners.answers import draw_answers_unchecked, uniforms_per_answer
from learners.base import (
    NO_LABEL,
    NO_PRICES,
    AnyLearner,
    BoolArray,
    Contexts,
    Decisions,
    FloatArray,
    IntArray,
    Prices,
    Rounds,
    State,
    every_label,
)
from learners.mathematics.limits import NO_LIMITS, obey_each
from learners.mathematics.preparation import Preparation
from service import costs, errors
from service.choice.answers import NOTHING, Shown, answers_of
from service.choice.candidates import EVERY, Candidates
from service.choice.choice import Choice, Choices, LoggedChoice, check_norm
from service.choice.overrides import Override, with_override
from service.choice.prices import Bills, bills_of, budget_of, check_weighs_costs, check_weight
from service.choice.requests import NO_OPTIONS, Options, PredictionRequest, Requests
from service.choice.rules import RuleLimits
from service.compute import slices
from service.contexts.registry import context_kind
from service.error_messages.values import quoted
from service.schemas.models import ModelDefinition
from service.store.records.codecs import AnswerArray
from service.store.records.optional_fields import GIVEN_COSTS, NO_OPTIONAL_FIELDS, LogRows, OptionalFields
from service.store.records.records import RecordFormat

_BYTES_PER_NUMBER = 16  # bytes of an index and a value


class LabelChoice(Choice):
    """Chooses among the labels of one model.

    Predictions that saw fewer than `since` changes contain another learner's evidence, of any size.
    """

    things = "labels"
    shares_blocks = True

    def __init__(
        self, definition: ModelDefinition, learner: AnyLearner, retired: frozenset[str], evidence_size: int, since: int
    ) -> None:
        features = definition.features
        self.definition, self._learner, self._labels, self._retired = definition, learner, definition.labels, retired
        self.active: BoolArray = np.array([label not in retired for label in self._labels])
        self._any_retired, self._starts = bool(retired), np.array([0, len(self._labels)])
        self.answers = answers_of(learner, self._labels)
        self.contexts = context_kind(features)
        self.preparation = Preparation(features.norm, features.norm_bound, features.intercept, features.n_features)
        self._refuses = features.norm == "reject"
        self.records = RecordFormat(self.answers.codec, evidence_size, self.contexts.codec, since=since)
        self.rules = None if definition.rules is None else RuleLimits(definition.rules, self.answers.numbers)
        self.limits = NO_LIMITS if self.rules is None else self.rules.of_labels
        self.budget, self.label_costs = budget_of(definition), np.zeros(len(self._labels))
        for label, cost in (definition.costs or {}).items():
            self.label_costs[self.answers.numbers[label]] = cost
        self.uniforms = uniforms_per_answer(learner)

    @property
    def table_bytes(self) -> int:
        return self.answers.table_bytes

    @property
    def _is_single(self) -> bool:
        return self.answers.choices is not None

    def reading_cost(self, request: PredictionRequest, enough: int) -> int:
        return self.contexts.reading_cost(request.context)

    def parse(self, request: PredictionRequest) -> PredictionRequest:
        if request.actions is not None:
            raise errors.ActionsNotAllowedError("the model has labels, so its requests bring no actions", "actions")
        context = self.contexts.check(request.context)
        if self._refuses:
            check_norm(self.contexts, self.preparation, self._learner.context_norm, context)
        return request if context is request.context else request._replace(context=context)

    def count(self, request: PredictionRequest) -> int:
        if not self._is_single:
            detail = "the model answers several labels at once, so its answers have no slots"
            raise errors.TopUnsupportedError(detail, "top")
        eligible = request.options.eligible
        return int(self.active.sum()) if eligible is None else len(eligible)

    def check_names(self, request: PredictionRequest) -> None:
        options = request.options
        if not self._is_single:
            field = next(name for name in ("eligible", "policy", "baseline") if getattr(options, name) is not None)
            raise errors.EligibleError("the model answers several labels, so its requests cannot name labels", field)
        for i, label in enumerate(options.eligible or ()):
            self._check_label(label, f"eligible.{i}")
        named = [(options.baseline, "baseline")] if options.baseline is not None else []
        if options.policy is not None:
            self._check_policy(options)
            named += [(label, "policy") for label, _ in options.policy]
        for label, field in named:
            self._check_label(label, field)
            if options.eligible is not None and label not in options.eligible:
                raise errors.InvalidInputError(f"got {quoted(label)}, which is not among the eligible labels", field)

    def check_prices(self, options: Options) -> None:
        check_weighs_costs(self._learner, "cost_weight" if options.costs is None else "costs")
        for label, _ in options.costs or ():
            self._check_label(label, f"costs.{label}")
        check_weight(self.definition, options)
        if options.costs is None and self.definition.costs is None:
            raise errors.InvalidInputError("must be left out, as neither model nor request has costs", "cost_weight")

    def _check_label(self, label: str, field: str) -> None:
        if label in self._retired:
            raise errors.RetiredLabelError(f"got {quoted(label)}; the model has retired this label", field)
        if label not in self.answers.numbers:
            raise errors.UnknownLabelError(f"got {quoted(label)}; the model has no such label", field)

    def fit_together(self, requests: Requests) -> bool:
        if self._refuses or not self.answers.has_distribution:
            return False
        if not all([each.options is NO_OPTIONS and each.actions is None for each in requests]):
            return False
        holdout = self.definition.holdout
        if holdout is not None and holdout.policy == "baseline":
            return False
        return self.contexts.fit_together([each.context for each in requests])

    def slot_bytes(self, request: PredictionRequest) -> tuple[int, int]:
        shared = self.context_bytes(request) + len(self.contexts.sent(request.context))
        given = len(request.options.costs or ()) * GIVEN_COSTS.itemsize
        return shared, 8 * self._learner.evidence_size + len(self._labels) // 8 + 1 + given

    def context_bytes(self, request: PredictionRequest) -> int:
        return self.contexts.size(request.context) * _BYTES_PER_NUMBER

    def fingerprinted(self, request: PredictionRequest) -> tuple[bytes, bytes]:
        return self.contexts.fingerprinted(request.context), b""

    def positions(self, request: PredictionRequest) -> Mapping[str, int]:
        return self.answers.numbers

    def show(self, requests: Requests, outputs: AnswerArray) -> list[Shown]:
        return self.answers.show(outputs)

    def distribution(self, request: PredictionRequest, p: FloatArray, eligible: BoolArray) -> dict[str, float]:
        if not eligible.size:
            return dict(zip(self._labels, p.tolist(), strict=True))
        return {self._labels[k]: float(p[k]) for k in np.flatnonzero(eligible)}

    def slices(self, requests: Requests) -> list[slice]:
        if len(requests) == 1:
            return [slice(0, 1)]
        each = self.deciding_cost(requests) // len(requests)
        return [slice(start, stop) for start, stop in slices(len(requests), each)]

    def deciding_cost(self, requests: Requests) -> int:
        rules = 0 if self.rules is None else self.rules.cost(len(self._labels)) * len(requests)
        if self.contexts.codec.fixed_bytes is not None:
            return rules + self._fixed_cost * len(requests)
        sizes = sum([self.contexts.size(each.context) for each in requests])
        each = self._learner.decide_cost(-(-sizes // len(requests)) + 1)
        stored = sum([self.contexts.storing_cost(each.context) for each in requests])
        return rules + stored + each * len(requests)

    @cached_property
    def _fixed_cost(self) -> int:
        size = self.definition.features.size
        return size * costs.STORED_NUMBER + self._learner.decide_cost(size + 1)

    def candidates(self, requests: Requests, cost_weight: float) -> Candidates:
        n, labels = len(requests), len(self._labels)
        starts = self._starts if n == 1 else np.arange(0, n * labels + 1, labels)
        contexts = self.contexts.to_batch([each.context for each in requests])
        return Candidates(starts, self._eligible(requests), contexts, self.limits, self._prices(requests, cost_weight))

    def _eligible(self, requests: Requests) -> BoolArray:
        """Return the mask of each request's eligible labels, (n * K,); (0,) if all are eligible."""
        if not self._any_retired and all([each.options.eligible is None for each in requests]):
            return EVERY
        eligible, numbers = np.tile(self.active, (len(requests), 1)), self.answers.numbers
        for i, each in enumerate(requests):
            if (named := each.options.eligible) is not None:
                eligible[i] = False
                eligible[i, [numbers[label] for label in named]] = True
        return eligible.reshape(-1)

    def _prices(self, requests: Requests, cost_weight: float) -> Prices:
        options = [each.options for each in requests]
        given = [each.costs for each in options if each.costs is not None]
        if self.definition.costs is None and not given:
            return NO_PRICES
        weights = np.array([cost_weight if each.cost_weight is None else each.cost_weight for each in options])
        if not given:
            return Prices(weights, self.label_costs[np.newaxis])
        return Prices(weights, np.stack([self._costs_with(each.costs or ()) for each in options]))

    def _costs_with(self, given: Sequence[tuple[str, float]]) -> FloatArray:
        costs, numbers = self.label_costs.copy(), self.answers.numbers
        for label, cost in given:
            costs[numbers[label]] = cost
        return costs

    def decide(self, state: State, candidates: Candidates) -> tuple[FloatArray, FloatArray]:
        eligible, contexts = self._rows(candidates.eligible, candidates.n), self.prepared(candidates.contexts)
        decisions = self._learner.decide_unchecked(state, contexts, eligible, candidates.prices)
        probabilities = decisions.distributions.reshape(-1)
        if len(candidates.limits.each):
            obey_each(candidates.limits, candidates.starts, candidates.eligible, probabilities)
        return probabilities, decisions.evidence

    def _rows(self, eligible: BoolArray, n: int) -> BoolArray:
        return eligible.reshape(n, len(self._labels)) if eligible.size else every_label(n)

    def choose(self, state: State, candidates: Candidates, override: Override | None, uniforms: FloatArray) -> Choices:
        probabilities, evidence = self.decide(state, candidates)
        probabilities = with_override(probabilities, candidates.starts, override)
        distributions = probabilities.reshape(candidates.n, len(self._labels) if probabilities.size else 0)
        draws = draw_answers_unchecked(self._learner, Decisions(distributions, evidence), uniforms)
        sound = np.isfinite(draws.propensities) & np.isfinite(evidence).all(axis=1)
        return Choices(distributions, evidence, draws, sound)

    def stored(
        self, requests: Requests, candidates: Candidates, chosen: IntArray, probabilities: FloatArray | None
    ) -> tuple[Contexts, OptionalFields]:
        sent, (weights, costs) = [self.contexts.sent(each.context) for each in requests], candidates.prices
        if not (candidates.eligible.size or sent[0] or len(weights)):
            return candidates.contexts, NO_OPTIONAL_FIELDS
        masks = self._rows(candidates.eligible, len(requests))
        parts = OptionalFields(masks, sent if sent[0] else ())
        if len(weights):
            rows = np.arange(len(requests)) if len(costs) > 1 else 0
            own = [self._encoded_costs(each.options) for each in requests]
            prices = np.column_stack([weights, costs[rows, chosen]])
            if self.definition.costs is None:
                prices[[each.options.costs is None for each in requests]] = np.nan
            parts = parts._replace(prices=prices, costs=own if any(own) else ())
        return candidates.contexts, parts

    def _encoded_costs(self, options: Options) -> bytes:
        given = [(self.answers.numbers[label], cost) for label, cost in options.costs or ()]
        return np.array(given, GIVEN_COSTS).tobytes()

    def bills(self, rows: LogRows) -> Bills | None:
        return bills_of(rows, self.definition, self.label_costs)

    def logged(self, rows: LogRows, i: int) -> LoggedChoice:
        table, show = rows.table, self.answers.show
        (answer,), truth = show(table["output"][i : i + 1]), table["truth"][i : i + 1]
        right = NOTHING if (truth == NO_LABEL).all() else show(truth)[0]
        return LoggedChoice(answer, right, self.contexts.show(rows.contexts, i, rows.parts.sent[i]))

    def counts(self, rows: LogRows) -> IntArray:
        masks = rows.parts.eligible
        if not masks.shape[1]:
            return np.full(len(masks), len(self._labels))
        return np.asarray(masks.sum(axis=1, dtype=np.int64))

    def learned(self, state: State, rounds: Rounds) -> State:
        return self._learner.fold_unchecked(state, rounds)
