"""The interface of a choice among candidates, which `labels` and `actions` implement.

A request with `top` gets several different answers, each in a *slot*. Each slot is a prediction.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from learners.base import BoolArray, ContextNorm, Contexts, Draws, FloatArray, IntArray, Rounds, State
from learners.mathematics.limits import Limits
from learners.mathematics.pacing import Budget, pace_all, paced_weight
from learners.mathematics.preparation import Preparation, Preparer
from service import errors
from service.choice.answers import Answers, Shown
from service.choice.candidates import Candidates
from service.choice.overrides import Override
from service.choice.prices import Bills
from service.choice.requests import NO_OPTIONS, Options, PredictionRequest, Requests
from service.choice.rules import RuleLimits
from service.contexts.kind import ContextKind
from service.error_messages.values import counted, shown
from service.schemas.models import ModelDefinition
from service.store.records.codecs import AnswerArray
from service.store.records.optional_fields import LogRows, OptionalFields
from service.store.records.records import RecordFormat


def check_norm(kind: ContextKind[Any], preparation: Preparation, norm: ContextNorm, context: object) -> None:
    """Raise `NormExceededError` if a checked context's largest absolute entry, or Euclidean norm, exceeds the bound."""
    numbers, bound = kind.numbers(context), preparation.room
    if norm == "maximum":
        position = next((i for i, number in enumerate(numbers) if abs(number) > bound), None)
        if position is not None:
            feature, field, sign = kind.entry(context, position)
            got, limits = shown(sign * numbers[position]), f"must be between -{bound:g} and {bound:g}"
            raise errors.NormExceededError(f"got {got} for feature {feature}; {limits}", field)
        return
    length = math.hypot(*numbers)
    if length > bound:
        most = f"the model's norm_bound, {preparation.bound:g}"
        if preparation.intercept:
            most = f"{bound:.9g}, so that context and intercept together stay within {most}"
        raise errors.NormExceededError(f"got a norm of {length:.9g}; must be at most {most}", "context")


_SUM_TOLERANCE = 1e-9  # maximum difference between 1 and the sum of a policy's probabilities
# Maximum bytes of a request's rounds if all slots get feedback: each round contains the whole context.
_MOST_ROUND_BYTES = 2**26

# Maximum bytes of the record of a request's slots. Feedback for one slot reads the whole record.
_MOST_SLOT_BYTES = 2**22


class Choices(NamedTuple):
    """The answers to n requests, and the distributions from which they were drawn."""

    distributions: FloatArray  # (n, K) for labels, (n, 0) for rankings, (m,) for m actions in all
    evidence: FloatArray  # (n, E)
    draws: Draws
    sound: BoolArray  # (n,), whether propensity and evidence are finite


class LoggedChoice(NamedTuple):
    """The choice that a row of the log records."""

    answer: Shown
    right: Shown  # the true answer; `NOTHING` if unknown
    context: Any  # as the client sent it
    actions: Any = None  # if the model has actions, a `service.actions.logged.LoggedActions`


class Choice(ABC):
    """Chooses among the candidates of one model's requests."""

    definition: ModelDefinition
    answers: Answers
    contexts: ContextKind[Any]
    preparation: Preparation  # how contexts, or vectors of candidates, are prepared for the learner
    records: RecordFormat
    things: str  # the plural of what is chosen, for messages
    active: BoolArray  # the mask of the labels that are not retired, (K,); (0,) for a model with actions
    rules: RuleLimits | None  # that bind the learner's distributions
    limits: Limits  # of the labels, set by the rules; none for a model with actions
    budget: Budget  # of the mean cost
    label_costs: FloatArray  # (K,), in the definition; (0,) for a model with actions
    uniforms: int  # U, the number of uniform random numbers that one answer consumes
    shares_blocks: bool  # whether predictions of different requests may be stored in one block

    @abstractmethod
    def reading_cost(self, request: PredictionRequest, enough: int) -> int:
        """Return the cost of `parse` in multiply-adds; it need not be exact once it reaches `enough`."""

    @abstractmethod
    def parse(self, request: PredictionRequest) -> PredictionRequest:
        """Return the request with its context and actions parsed.

        The result stays valid if the model changes; the options do not: see `check_options`.
        """

    @abstractmethod
    def count(self, request: PredictionRequest) -> int:
        """Return the number of eligible candidates of a parsed request; raise an error if answers have no slots."""

    @abstractmethod
    def check_names(self, request: PredictionRequest) -> None:
        """Raise `InvalidInputError` if a name or the policy in the options of a parsed request is invalid."""

    @abstractmethod
    def check_prices(self, options: Options) -> None:
        """Raise `InvalidInputError` if the costs in the options, or their weight, are invalid."""

    def fit_together(self, requests: Requests) -> bool:
        """Check whether `check` would return every request unchanged; return False if that is slow to determine."""
        return False

    @abstractmethod
    def slot_bytes(self, request: PredictionRequest) -> tuple[int, int]:
        """Return the approximate bytes that the slots of a parsed request share, and those that each slot adds."""

    @abstractmethod
    def context_bytes(self, request: PredictionRequest) -> int:
        """Return the approximate bytes of a parsed request's context, as a stored vector."""

    @abstractmethod
    def fingerprinted(self, request: PredictionRequest) -> tuple[bytes, bytes]:
        """Return bytes that identify a parsed request's context and actions, and a tag of at most 16 bytes.

        The tag separates the hashes of different encodings.
        """

    @abstractmethod
    def positions(self, request: PredictionRequest) -> Mapping[str, int]:
        """Return the position of each candidate of a parsed request, by label or id."""

    @abstractmethod
    def show(self, requests: Requests, outputs: AnswerArray) -> list[Shown]:
        """Return what clients see of the answers to n parsed requests; `outputs`, (n, ...), are as stored."""

    @abstractmethod
    def distribution(self, request: PredictionRequest, p: FloatArray, eligible: BoolArray) -> dict[str, float]:
        """Return the probability of each eligible candidate of a request, by label or id; an empty mask means all."""

    @abstractmethod
    def slices(self, requests: Requests) -> list[slice]:
        """Divide parsed requests into slices; deciding one slice costs about `costs.SLICE`."""

    @abstractmethod
    def deciding_cost(self, requests: Requests) -> int:
        """Return the cost of deciding and encoding one slot of each parsed request, in multiply-adds."""

    @abstractmethod
    def candidates(self, requests: Requests, cost_weight: float) -> Candidates:
        """Return the candidates of parsed requests as a flat batch. `cost_weight` counts where a request has none."""

    @abstractmethod
    def decide(self, state: State, candidates: Candidates) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each candidate, (m,), and the evidence, (n, E).

        They weigh the prices and obey the rules. Ineligible candidates have probability 0. For rankings, there are no
        probabilities, (0,).
        """

    @abstractmethod
    def choose(self, state: State, candidates: Candidates, override: Override | None, uniforms: FloatArray) -> Choices:
        """Decide, and draw one answer to each of n requests with uniform numbers (n, U) in [0, 1).

        The probabilities in the result are (n, K) for labels and (m,) for actions; for rankings there are none, (n, 0).
        The labels in `draws` are positions of candidates; for sets and rankings, rows as in `learners.answers`.
        """

    @property
    @abstractmethod
    def table_bytes(self) -> int:
        """The approximate memory of tables and caches in bytes, without the labels."""

    @abstractmethod
    def stored(
        self, requests: Requests, candidates: Candidates, chosen: IntArray, probabilities: FloatArray | None
    ) -> tuple[Contexts, OptionalFields]:
        """Return the contexts and the optional fields to store for n answers at the positions `chosen`, (n,).

        `probabilities` are those of all candidates, (m,); None if unknown.
        """

    @abstractmethod
    def logged(self, rows: LogRows, i: int) -> LoggedChoice:
        """Return the choice that row i of logged rounds records."""

    @abstractmethod
    def counts(self, rows: LogRows) -> IntArray:
        """Return the number of eligible candidates of each of n logged rounds, (n,)."""

    @abstractmethod
    def bills(self, rows: LogRows) -> Bills | None:
        """Return what n logged rounds cost; None if nothing is known of it."""

    @abstractmethod
    def learned(self, state: State, rounds: Rounds) -> State:
        """Return the learner's state after logged rounds, as `Learner.fold_unchecked` does."""

    def fold_unchecked(self, state: State, rounds: Rounds, bills: Bills | None) -> State:
        """Return the state after logged rounds, with λ after their costs."""
        state = self.learned(state, rounds)
        if self.definition.budget is not None and bills is not None:
            pace_all(state.pacing, self.budget, bills.paid, bills.weights, bills.lags)
        return state

    def cost_weight(self, state: State) -> float:
        """Return λ, which the budget sets if there is one."""
        if self.definition.budget is None:
            return self.definition.cost_weight
        return float(paced_weight(state.pacing, self.budget))

    @cached_property
    def prepared(self) -> Preparer:
        """The function that prepares stored contexts for the learner."""
        return Preparer(self.preparation)

    def left_out(self, candidates: Candidates, override: Override | None, p: FloatArray) -> list[list[str]]:
        """Return the rules that the distributions p (m,) of n requests leave out, for each request.

        The result is empty if no request can leave out any. Rules do not bind requests that another policy answers.
        """
        starts, eligible, _, limits, _ = candidates
        if self.rules is None or (not eligible.size and self.definition.actions is None):
            return []
        found = list[list[str]]()
        for i, (start, stop) in enumerate(pairwise(starts.tolist())):
            groups = limits.groups if len(limits.groups) == stop - start else limits.groups[start:stop]
            bound = override is None or not override.rows[i]
            found.append(self.rules.left_out(groups, eligible[start:stop], p[start:stop]) if bound else [])
        return found

    def check(self, request: PredictionRequest) -> PredictionRequest:
        """Parse a request, and check that it fits the model; raise `InvalidInputError` if it does not."""
        top = request.options.top
        if top is not None and request.include_distribution:
            detail = "got true; must be false with top: each slot has its own"
            raise errors.NoDistributionError(detail, "include_distribution")
        parsed = self.parse(request)
        self.check_options(parsed)
        if request.include_distribution and not self.answers.has_distribution:
            detail = "got true; must be false, as the model has too many rankings to list"
            raise errors.NoDistributionError(detail, "include_distribution")
        if top is not None and top > 1:
            self._check_slots(parsed, top)
        return parsed

    def _check_slots(self, request: PredictionRequest, top: int) -> None:
        shared, each = self.slot_bytes(request)
        most = max(1, min((_MOST_SLOT_BYTES - shared) // each, _MOST_ROUND_BYTES // (shared + each)))
        if top > most:
            detail = f"got {top}; the context is large, so the request may have {counted(most, 'slots')}"
            raise errors.TopTooLargeError(detail, "top")

    def check_options(self, request: PredictionRequest) -> None:
        """Raise `InvalidInputError` if a parsed request's options are invalid. Changes of the model may cause this."""
        options, holdout = request.options, self.definition.holdout
        if options is NO_OPTIONS and holdout is None:
            return
        if options.baseline is None and holdout is not None and holdout.policy == "baseline":
            detail = "missing; the holdout of this model answers the baseline of each request"
            raise errors.BaselineNeededError(detail, "baseline")
        if options.top is not None and options.top > (left := self.count(request)):
            detail = f"got {options.top}; the request has {counted(left, f'eligible {self.things}')}"
            raise errors.TooFewChoicesError(detail, "top")
        if (options.eligible, options.baseline, options.policy) != (None, None, None):
            self.check_names(request)
        if (options.costs, options.cost_weight) != (None, None):
            self.check_prices(options)

    def _check_policy(self, options: Options) -> None:
        if self.definition.mode != "logging":
            raise errors.ModeError(f'the model has mode {shown(self.definition.mode)}, not "logging"', "policy")
        total = math.fsum(p for _, p in options.policy or ())
        if abs(total - 1.0) > _SUM_TOLERANCE:
            raise errors.InvalidInputError(f"the probabilities sum to {shown(total)}; they must sum to 1", "policy")
