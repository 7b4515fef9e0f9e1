"""The evaluation of policies on the parts of a log."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from learners.evaluation.off_policy.best_label import choose_label
from learners.evaluation.off_policy.reward_model import RewardModel
from learners.evaluation.off_policy.sums import Settings, Sums, merge_all
from service.analytics.evaluation import LEVEL, clip_for, policy_value
from service.schemas.reports import EvaluationAnswer
from toolkit.evaluation.columns import EvaluationError, LoggedModel
from toolkit.evaluation.engines import Engine
from toolkit.evaluation.passes import NO_ROUNDS, Log, Part, Plan, Survey, first_number, measure, replay_parts, survey
from toolkit.evaluation.policies import Specification, read_choices

_MOST_LISTED = 10
"""Holes that a warning names."""

_T = TypeVar("_T")


class Progress(Protocol):
    """Shows how much of some work is done."""

    def __call__(self, what: str, results: Iterator[_T], total: int) -> Iterator[_T]:
        """Yield the results, and show how many of `total` there are."""


class Request(NamedTuple):
    """What to evaluate."""

    specifications: list[Specification]
    replicates: int = 1000
    seed: int = 1
    clip: float | None = None  # None for the default


def evaluate(
    parts: Sequence[Part], model: LoggedModel, request: Request, engine: Engine, progress: Progress
) -> EvaluationAnswer:
    """Return the values of policies."""
    log = Log(model, first_number(parts), request.seed)
    found, missing = _surveyed(parts, log, engine, progress)
    if found.n == 0:
        raise EvaluationError("the log has no rounds")
    plan = _plan(log, request, found)
    sums = _measured(parts, log, plan, engine, progress)
    for each in request.specifications:
        if each.kind == "learner":
            replayed = replay_parts(parts, log, each, plan, found.n)
            sums[each] = merge_all(list(progress(each.name, replayed, len(parts))))
    ordered = [*plan.specifications, *[each for each in request.specifications if each.kind == "learner"]]
    answer = _answer(log, plan, found, [(each, sums[each]) for each in ordered])
    return answer.model_copy(update={"notes": [*answer.notes, *_warnings(missing)]})


def _surveyed(
    parts: Sequence[Part], log: Log, engine: Engine, progress: Progress
) -> tuple[Survey, list[tuple[int, int]]]:
    """Return what is in all parts, and the first and the last round of each hole between them."""
    surveys = progress("reading", engine.map(survey, parts, log), len(parts))
    merged, missing = NO_ROUNDS, list[tuple[int, int]]()
    for found, part in zip(surveys, parts, strict=True):
        if merged.n and found.first > merged.last + 1:
            missing.append((merged.last + 1, found.first - 1))
        merged = merged.merge(found, part.name)
    return merged, missing


def _warnings(missing: Sequence[tuple[int, int]]) -> list[str]:
    """Return a sentence about holes between parts. A log itself lacks its damaged rounds."""
    if not missing:
        return []
    listed = ", ".join(f"{first:,} to {last:,}" for first, last in missing[:_MOST_LISTED])
    more = f" and {len(missing) - _MOST_LISTED:,} more ranges" if len(missing) > _MOST_LISTED else ""
    count = sum(last - first + 1 for first, last in missing)
    return [
        f"Warning: {count:,} rounds are missing between parts: {listed}{more}. The values are those of the other "
        "rounds. Repeat `wager export` to write a deleted part again."
    ]


def _plan(log: Log, request: Request, found: Survey) -> Plan:
    specifications = [each for each in dict.fromkeys(request.specifications) if each.kind != "learner"]
    if found.holdouts:
        specifications.insert(1, Specification("holdout"))
    if found.unknown_counts and any(each.kind == "uniform" for each in specifications):
        detail = f"{found.unknown_counts} rounds do not say how many actions there were"
        raise EvaluationError(f"--policy uniform: {detail}; the column `distribution` or `action_count` does")
    return Plan(
        specifications,
        Settings(request.seed, request.replicates, clip_for(found.n) if request.clip is None else request.clip),
        None if log.model.has_actions else RewardModel(found.rewards, log.problem),
        -1 if found.labels is None else choose_label(found.labels),
        {each.value: read_choices(Path(each.value), log.model) for each in specifications if each.kind == "choices"},
    )


def _measured(
    parts: Sequence[Part], log: Log, plan: Plan, engine: Engine, progress: Progress
) -> dict[Specification, Sums]:
    found: list[list[Sums]] = list(progress("estimating", engine.map(measure, parts, log, plan), len(parts)))
    merged = [merge_all(sums) for sums in zip(*found, strict=True)]
    return dict(zip(plan.specifications, merged, strict=True))


def _answer(log: Log, plan: Plan, found: Survey, sums: Sequence[tuple[Specification, Sums]]) -> EvaluationAnswer:
    labels = log.model.labels
    values = []
    for each, one in sums:
        label = labels[plan.best_label] if each.kind == "best_constant" else each.value or None
        shown = label if each.kind in ("constant", "best_constant") else None
        values.append(policy_value(each.name, shown, one, plan.settings))
    return EvaluationAnswer(
        model=log.model.name,
        rounds=found.n,
        first_round=found.first,
        last_round=found.last,
        level=LEVEL,
        clip=plan.settings.clip,
        seed=plan.settings.seed,
        policies=values,
        notes=_notes(log),
    )


def _notes(log: Log) -> list[str]:
    if log.model.has_actions:
        return ["A model with actions has no reward model: direct and doubly_robust are left out."]
    if not log.problem.uses_contexts:
        return ["The reward model has no contexts: the log has none, or too many features for a regression."]
    return []
