"""The passes over the parts of a log: a survey, which also fits reward models; then the sums of the estimates."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from learners.base import BoolArray, InvalidArrayError
from learners.evaluation.off_policy.best_label import LabelSums, chooses, label_sums
from learners.evaluation.off_policy.learner_replay import replay
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.evaluation.off_policy.policies import ConstantLabel, GivenDistributions, Served, UniformChoice
from learners.evaluation.off_policy.reward_model import (
    NO_REWARD_SUMS,
    RewardModel,
    RewardProblem,
    RewardSums,
    reward_sums,
)
from learners.evaluation.off_policy.sums import Settings
from learners.evaluation.off_policy.terms import Evaluated
from service.analytics.evaluation import Valued, certain_holdouts, no_value, rows_of, valued
from toolkit.evaluation.columns import Columns, EvaluationError, LoggedModel
from toolkit.evaluation.parquet import ParquetPart
from toolkit.evaluation.policies import Choices, Specification, build
from toolkit.evaluation.remote_log import RemotePart
from toolkit.evaluation.rows import RowsPart

_BATCH = 65_536
_NUMBERS = 4_000_000  # maximum rewards predicted at once
_COMPILED_FROM = 200_000
"""Minimum rounds for which a learner's loop is compiled. For shorter logs, compilation takes longer than it saves."""


Part: TypeAlias = ParquetPart | RemotePart | RowsPart
"""A part of a log, which can be read repeatedly, also in another process."""


class Survey(NamedTuple):
    """The results of the first pass over some parts."""

    n: int
    first: int  # the number of the first round; -1 without rounds
    last: int
    holdouts: int  # rounds that the holdout answered
    certain_holdouts: int  # see `service.analytics.evaluation`
    unknown_counts: int  # rounds with an unknown number of actions
    labels: LabelSums | None  # of the rounds that the holdout did not answer
    labels_of_holdout: LabelSums | None
    rewards: RewardSums
    largest_cost: float

    def merge(self, other: "Survey", where: str) -> "Survey":
        """Merge two surveys. Raises `EvaluationError`, naming `where`, unless the rounds of `other` are later."""
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        if other.first <= self.last:
            detail = f"begins with round {other.first}, but an earlier part ends with round {self.last}"
            raise EvaluationError(f"{where}: {detail}; each round may occur once, in order")
        return Survey(
            self.n + other.n,
            self.first,
            other.last,
            self.holdouts + other.holdouts,
            self.certain_holdouts + other.certain_holdouts,
            self.unknown_counts + other.unknown_counts,
            merged_labels(self.labels, other.labels),
            merged_labels(self.labels_of_holdout, other.labels_of_holdout),
            self.rewards.merge(other.rewards),
            max(self.largest_cost, other.largest_cost),
        )


NO_ROUNDS = Survey(0, -1, -1, 0, 0, 0, None, None, NO_REWARD_SUMS, 0.0)


def merged_labels(one: LabelSums | None, other: LabelSums | None) -> LabelSums | None:
    """Return the sums over the rounds of both; None for a model with actions."""
    return None if one is None or other is None else one.merge(other)


class Log(NamedTuple):
    """The properties that all parts of a log share."""

    model: LoggedModel
    first: int  # the number of its first round
    seed: int

    @property
    def problem(self) -> RewardProblem:
        """The settings of the reward model, which all parts share."""
        return RewardProblem(len(self.model.labels), self.first)

    @property
    def batch(self) -> int:
        """The maximum number of rounds to read at once."""
        return max(1, min(_BATCH, _NUMBERS // max(1, len(self.model.labels))))


def survey(part: Part, log: Log) -> Survey:
    """Return the results of the first pass over a part."""
    found = NO_ROUNDS
    for columns, rounds in _read(part, log, with_contexts=log.model.n_features > 0):
        found = found.merge(_surveyed(columns, rounds, log), part.name)
    return found


def _surveyed(columns: Columns, rounds: LoggedRounds, log: Log) -> Survey:
    has_labels = not log.model.has_actions
    arms = [rows_of(rounds, arm) for arm in (~rounds.holdout, rounds.holdout)]
    ours, held = [label_sums(arm, len(log.model.labels), log.seed) if has_labels else None for arm in arms]
    return Survey(
        rounds.n,
        int(rounds.numbers[0]),
        int(rounds.numbers[-1]),
        int(rounds.holdout.sum()),
        certain_holdouts(rounds),
        0 if has_labels else columns.counts.count(None),
        ours,
        held,
        reward_sums(rounds, log.problem) if has_labels else NO_REWARD_SUMS,
        float(np.fmax.reduce(columns.paid, initial=0.0)),
    )


class Plan(NamedTuple):
    """The policies that the second pass evaluates, and what it needs for that."""

    specifications: list[Specification]  # without learners
    settings: Settings
    rewards: RewardModel | None
    uses_holdout: bool  # for all policies, not only for `holdout`
    largest_cost: float  # 1 if no cost is above 0
    best_label: int  # the number of the best constant label; -1 for a model with actions
    choices: dict[str, Choices]  # the files of choices, by path

    def valued(self, columns: Columns, rounds: LoggedRounds, evaluated: Sequence[Evaluated]) -> list[Valued]:
        """Return the sums of each policy over some rounds."""
        return valued(rounds, evaluated, self.settings, self.rewards, columns.paid / self.largest_cost)

    def used(self, rounds: LoggedRounds) -> BoolArray:
        """Return the mask (n,) of the rounds that evaluate other policies than `holdout`."""
        return np.ones(rounds.n, np.bool_) if self.uses_holdout else ~rounds.holdout


def measure(part: Part, log: Log, plan: Plan) -> list[Valued]:
    """Return the sums of each policy from the second pass over a part."""
    sums = [no_value(plan.settings) for _ in plan.specifications]
    for columns, rounds in _read(part, log, plan.rewards is not None and plan.rewards.uses_contexts):
        evaluated = [_evaluated(each, rounds, log, plan) for each in plan.specifications]
        found = plan.valued(columns, rounds, evaluated)
        sums = [one.merge(other) for one, other in zip(sums, found, strict=True)]
    return sums


def _evaluated(specification: Specification, rounds: LoggedRounds, log: Log, plan: Plan) -> Evaluated:
    used = plan.used(rounds)
    match specification.kind:
        case "served":
            return Evaluated(Served(), ~rounds.holdout)
        case "holdout":
            return Evaluated(Served(), rounds.holdout)
        case "constant":
            return Evaluated(ConstantLabel(log.model.label_number(specification.value, "--policy")), used)
        case "best_constant":
            # only the half of the rounds that did not serve to choose the label
            return Evaluated(ConstantLabel(plan.best_label), used & ~chooses(log.seed, rounds.numbers))
        case "choices":
            choices = plan.choices[specification.value]
            return Evaluated(GivenDistributions(choices.distributions(rounds, len(log.model.labels))), used)
        case _:
            return Evaluated(UniformChoice(), used)


def replay_parts(
    parts: Sequence[Part], log: Log, specification: Specification, plan: Plan, total: int
) -> Iterator[Valued]:
    """Let a learner learn the log in order.

    For each part, yield the sums of the policy whose distribution in a round is the learner's before that round.
    """
    learner, state = build(specification.value, log.model), None
    for part in parts:
        sums, row = no_value(plan.settings), 0
        for columns, rounds in _read(part, log, with_contexts=True):
            terms = log.model.terms_of(columns, part.name, row + 1)
            try:
                result = replay(learner, rounds, state, log.seed, terms=terms, in_python=total < _COMPILED_FROM)
            except InvalidArrayError as error:
                raise EvaluationError(f"{part.name}: after row {row}: {error}") from None
            state, row = result.state, row + rounds.n
            evaluated = [Evaluated(GivenDistributions(result.distributions), plan.used(rounds))]
            sums = sums.merge(plan.valued(columns, rounds, evaluated)[0])
        yield sums


def _read(part: Part, log: Log, with_contexts: bool) -> Iterator[tuple[Columns, LoggedRounds]]:
    row = 1
    for columns in part.batches(log.batch):
        if columns.n:
            yield columns, log.model.rounds_of(columns, part.name, row, with_contexts)
        row += columns.n


def first_number(parts: Iterable[Part]) -> int:
    """Return the number of the first round of a log; 0 if it has no round."""
    for part in parts:
        for columns in part.batches(1):
            if columns.n:
                return int(columns.numbers[0])
    return 0
