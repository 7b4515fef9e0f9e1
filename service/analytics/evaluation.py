"""Evaluates policies on the latest rounds of a model, for `GET /models/{name}/evaluation`."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.answers import is_structured
from learners.base import BoolArray, FloatArray, every_label
from learners.evaluation.intervals import Interval
from learners.evaluation.off_policy.best_label import choose_label, chooses, label_sums
from learners.evaluation.off_policy.estimates import Abstention, Estimate, evaluation_of
from learners.evaluation.off_policy.logged import LoggedRounds, joined, no_contexts
from learners.evaluation.off_policy.policies import GivenChances, Served, UniformChoice
from learners.evaluation.off_policy.reward_model import RewardModel
from learners.evaluation.off_policy.sums import Settings, Sums, no_sums
from learners.evaluation.off_policy.terms import Evaluated, sums_of
from learners.evaluation.weights import weighable
from service import costs, kernels
from service.analytics.trust import trust_of
from service.environment import Environment
from service.errors import NotEvaluableError
from service.models.model import Model
from service.prediction_id import are_first_answers
from service.registry.registry import stored_under
from service.schemas.reports import AbstentionValue, EstimateAnswer, EvaluationAnswer, PolicyValue
from service.store.log_entries import read_page
from service.store.records.layout import HOLDOUT
from service.store.records.optional_fields import LogRows
from service.store.values import LogEntry

LEVEL = 0.95  # the confidence level of all intervals
MOST_ROUNDS = 100_000  # maximum rounds of an evaluation
_REPLICATES, _SEED, _LEAST_CLIP = 500, 1, 10.0  # bootstrap replicates, random seed, lower limit of `clip_for`
HOLDOUT_LEFT_OUT = "Answers of the holdout were certain, so its rounds evaluate only the policy `holdout`."
_SLOTS = (
    "Requests have several slots, which the intervals take for independent rounds: they are too narrow, for m slots by "
    "a factor up to √m, if users like all slots of a request or none."
)
_PAGE_BYTES, _MOST_BYTES = 2**19, 2**26  # maximum size of a page of rounds; of all rounds, or of all their masks


def clip_for(rounds: int) -> float:
    """Return the bound on the weights of clipped IPS for n rounds: about √n, as in Ionides (2008), but at least 10."""
    return max(_LEAST_CLIP, float(round(math.sqrt(rounds))))


class Valued(NamedTuple):
    """The sums of one policy over a log."""

    rewards: Sums
    costs: Sums  # with the costs, divided by the largest, in place of the rewards; over the rounds that have one

    def merge(self, other: "Valued") -> "Valued":
        """Return the sums over the rounds of both."""
        return Valued(self.rewards.merge(other.rewards), self.costs.merge(other.costs))


def no_value(settings: Settings) -> Valued:
    """Return the sums over zero rounds."""
    return Valued(no_sums(settings), no_sums(settings))


def valued(
    rounds: LoggedRounds,
    evaluated: Sequence[Evaluated],
    settings: Settings,
    model: RewardModel | None,
    costs: FloatArray,
) -> list[Valued]:
    """Return the sums of each policy over n rounds. `costs` (n,) are divided by the largest; NaN where unknown."""
    rewards, known = sums_of(rounds, evaluated, settings, model), ~np.isnan(costs)
    if not known.any():
        return [Valued(each, no_sums(settings)) for each in rewards]
    priced = rounds._replace(rewards=np.where(known, costs, 0.0))
    among = [each._replace(used=known if each.used is None else known & each.used) for each in evaluated]
    return list(map(Valued, rewards, sums_of(priced, among, settings)))


def policy_value(policy: str, label: str | None, sums: Valued, settings: Settings, largest: float) -> PolicyValue:
    """Return the values of a policy, given its sums over a log whose largest cost is `largest`."""
    found = evaluation_of(sums.rewards, settings, LEVEL)
    trust = trust_of(found)
    return PolicyValue(
        policy=policy,
        label=label,
        estimates=[_estimate(each, each.value) for each in found.estimates if each.value is not None],
        low=found.conservative.low,
        high=found.conservative.high,
        rounds=found.rounds,
        effective_rounds=found.effective_rounds,
        largest_weight=found.largest_weight,
        mean_weight=found.mean_weight,
        clipped_share=found.clipped_share,
        abstention=None if found.abstention is None else _abstention(found.abstention),
        cost=_cost(sums.costs, settings, largest),
        trust=trust.word,
        trust_reason=trust.reason,
        warnings=found.warnings,
    )


def _estimate(found: Estimate, value: float) -> EstimateAnswer:
    low, high = (None, None) if found.interval is None else found.interval
    return EstimateAnswer(estimator=found.estimator, value=value, low=low, high=high, doubt=found.doubt)


def _cost(sums: Sums, settings: Settings, largest: float) -> EstimateAnswer | None:
    found = next(each for each in evaluation_of(sums, settings, LEVEL).estimates if each.estimator == "snips")
    if found.value is None:
        return None
    ends = None if found.interval is None else Interval(*(end * largest for end in found.interval))
    return _estimate(found._replace(interval=ends), found.value * largest)


def _abstention(found: Abstention) -> AbstentionValue:
    low, high = (None, None) if found.accuracy.interval is None else found.accuracy.interval
    return AbstentionValue(rate=found.rate, cost=found.cost, accuracy=found.accuracy.value, low=low, high=high)


def certain_holdouts(rounds: LoggedRounds) -> int:
    """Return how many of the holdout's answers were certain although there was a choice.

    If any was, the holdout lacks answers of other policies, and its rounds cannot evaluate them: a weight is 1 on
    average only if each arm can give every answer. Leaving out only the certain rounds would distort the contexts.
    """
    return int((rounds.holdout & (rounds.propensities >= 1.0) & (rounds.counts > 1)).sum())


def rows_of(rounds: LoggedRounds, among: BoolArray) -> LoggedRounds:
    """Return those rounds that a mask (n,) marks, without contexts."""
    columns: list[Any] = [column[among] for column in rounds[:-1]]
    return LoggedRounds(*[*columns, no_contexts(int(among.sum()))])


class _Page(NamedTuple):
    rounds: LoggedRounds  # without contexts and eligible labels
    masks: npt.NDArray[np.uint8]  # (n, ⌈K / 8⌉), the eligible labels as bits; (n, 0) if every label was eligible
    costs: FloatArray  # (n,), of the answers; NaN where unknown
    has_slots: bool  # whether a request has several answers


class LatestRounds:
    """Evaluates policies on the latest rounds of any model."""

    def __init__(self, environment: Environment) -> None:
        self._store, self._compute, self._models = environment.store, environment.compute, environment.models

    async def evaluate(self, name: str, most: int) -> EvaluationAnswer:
        """Evaluate the served policy, uniform draws and, where they exist, the holdout and the best constant label.

        Reads about the latest `most` rounds, fewer if they are large. Raises `NotEvaluableError` for sets and rankings.
        """
        stored = await stored_under(self._store, name)
        model = await self._models.read(stored)
        if is_structured(model.learner):
            detail = f"{model.learner.algorithm} answers sets or rankings, which have no estimators here"
            raise NotEvaluableError(detail, "name")
        limit = min(most, _most_rounds(model))
        pages = await self._read(model, max(0, stored.round_count - limit), stored.round_count)
        await kernels.wait_for(model)
        return await self._compute.run(name, _values, model, pages, limit < most)  # the first call may compile

    async def _read(self, model: Model, after: int, last: int) -> list[_Page]:
        """Return pages of the weighable rounds after `after`, up to the end of the log entry with round `last`."""
        pages, size = list[_Page](), max(1, _PAGE_BYTES // model.choice.records.round_bytes)
        while after < last:
            entries = (await self._store.read_tail(model.key, after, min(size, last - after))).entries
            if not entries or entries[-1].last_round <= after:
                break
            cost = costs.DECODED_BYTE * sum(len(entry.payload) for entry in entries)
            pages += await self._compute.run_in_thread_if_costly(cost, model.name, _pages_of, model, entries, after)
            after = entries[-1].last_round
        return pages


def _most_rounds(model: Model) -> int:
    labels = len(model.definition.labels)
    return min(MOST_ROUNDS, _MOST_BYTES // model.choice.records.round_bytes, 8 * _MOST_BYTES // max(labels, 1))


def _pages_of(model: Model, entries: Sequence[LogEntry], after: int) -> list[_Page]:
    found = [stretch.rows for stretch in read_page(model.choice.records, entries) if stretch.rows is not None]
    return [_page(model, rows, rows.table["round"] > after) for rows in found]


def _page(model: Model, rows: LogRows, among: BoolArray) -> _Page:
    table, places = rows.table, np.flatnonzero(among & weighable(rows.table["propensity"]))
    n, counts, masks = len(places), model.choice.counts(rows)[places], rows.parts.eligible[places]
    prices = rows.parts.prices
    return _Page(
        LoggedRounds(
            numbers=table["round"][places].astype(np.int64),
            labels=table["output"][places].astype(np.int64),
            propensities=table["propensity"][places].astype(np.float64),
            rewards=table["reward"][places].astype(np.float64),
            eligible=every_label(n),
            counts=counts,
            holdout=(table["flags"][places] & HOLDOUT) != 0,
            true_labels=table["truth"][places].astype(np.int64),
            contexts=no_contexts(n),
        ),
        np.packbits(masks, axis=1, bitorder="little") if masks.shape[1] else np.empty((n, 0), np.uint8),
        prices[places, 1] if prices.size else np.full(n, np.nan),
        not are_first_answers(table["token"][places]).all(),
    )


def _values(model: Model, pages: Sequence[_Page], is_limited: bool) -> EvaluationAnswer:
    rounds = joined([page.rounds for page in pages])
    settings = Settings(_SEED, _REPLICATES, clip_for(rounds.n))
    named: list[tuple[str, str | None, Evaluated]] = [("served", None, Evaluated(Served(), ~rounds.holdout))]
    if rounds.holdout.any():
        named.append(("holdout", None, Evaluated(Served(), rounds.holdout)))
    used = ~rounds.holdout if certain_holdouts(rounds) else np.ones(rounds.n, np.bool_)
    named.append(("uniform", None, Evaluated(UniformChoice(), used)))
    if model.definition.labels and rounds.n:
        named.append(_best_constant(model, rounds, pages, used))
    costs = np.concatenate([np.empty(0), *[page.costs for page in pages]])
    largest = float(np.fmax.reduce(costs, initial=0.0)) or 1.0
    sums = valued(rounds, [each for _, _, each in named], settings, None, costs / largest)
    values = [policy_value(*names[:2], one, settings, largest) for names, one in zip(named, sums, strict=True)]
    return EvaluationAnswer(
        model=model.name,
        rounds=rounds.n,
        first_round=int(rounds.numbers[0]) if rounds.n else None,
        last_round=int(rounds.numbers[-1]) if rounds.n else None,
        level=LEVEL,
        clip=settings.clip,
        seed=settings.seed,
        policies=values,
        notes=[
            *_notes(model, rounds, is_limited),
            *([] if used.all() else [HOLDOUT_LEFT_OUT]),
            *([_SLOTS] if any(page.has_slots for page in pages) else []),
        ],
    )


def _best_constant(
    model: Model, rounds: LoggedRounds, pages: Sequence[_Page], used: BoolArray
) -> tuple[str, str | None, Evaluated]:
    """Choose the best constant label on one half of the used rounds; return it for evaluation on the other half."""
    labels = model.definition.labels
    label = choose_label(label_sums(rows_of(rounds, used), len(labels), _SEED))
    allowed = np.concatenate([_allowed(page, label) for page in pages])  # where False, draws are uniform
    chances = np.where(allowed, (rounds.labels == label).astype(np.float64), 1.0 / rounds.counts)
    evaluated = Evaluated(GivenChances(chances), used & ~chooses(_SEED, rounds.numbers))
    return "best_constant", labels[label], evaluated


def _allowed(page: _Page, label: int) -> BoolArray:
    if page.masks.shape[1] == 0:
        return np.ones(page.rounds.n, np.bool_)
    return np.asarray((page.masks[:, label // 8] >> (label % 8)) & 1 == 1)


def _notes(model: Model, rounds: LoggedRounds, is_limited: bool) -> Iterator[str]:
    if is_limited:
        yield f"The rounds of this model are large, so at most the latest {_most_rounds(model):,} are read."
    if model.definition.actions is not None:
        yield "A model with actions has no constant labels."
    if model.definition.on_expiry != "drop" and rounds.n:
        yield "Predictions without feedback are rounds too, as the model's on_expiry says."
