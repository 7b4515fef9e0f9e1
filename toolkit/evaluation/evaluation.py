"""Evaluates policies on the parts of a log."""

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple, TypeVar

from rich.console import Console
from rich.progress import track

from learners.evaluation.off_policy.best_label import choose_label
from learners.evaluation.off_policy.reward_model import RewardModel
from learners.evaluation.off_policy.sums import Settings
from service.analytics.evaluation import HOLDOUT_LEFT_OUT, LEVEL, Valued, clip_for, policy_value
from service.schemas.reports import EvaluationAnswer
from toolkit.evaluation.columns import EvaluationError, LoggedModel
from toolkit.evaluation.engines import Engine
from toolkit.evaluation.passes import (
    NO_ROUNDS,
    Log,
    Part,
    Plan,
    Survey,
    first_number,
    measure,
    merged_labels,
    replay_parts,
    survey,
)
from toolkit.evaluation.policies import Specification, read_choices
from toolkit.evaluation.rows import RowsPart

_MOST_LISTED = 10
"""Maximum holes, which are ranges of missing rounds, that a warning lists."""

_T = TypeVar("_T")


class Request(NamedTuple):
    """What to evaluate."""

    specifications: list[Specification]
    replicates: int = 1000
    seed: int = 1
    clip: float | None = None  # the largest weight of clipped IPS; None for the default


def evaluate(parts: Sequence[Part], model: LoggedModel, request: Request, engine: Engine) -> EvaluationAnswer:
    """Estimate the values of policies. Raises `EvaluationError` if the log or a policy cannot be evaluated."""
    log = Log(model, first_number(parts), request.seed)
    found, missing = _survey(parts, log, engine)
    if found.n == 0:
        raise EvaluationError("the log has no rounds")
    plan = _plan(log, request, found)
    measured: list[list[Valued]] = list(_progress("estimating", engine.map(measure, parts, log, plan), len(parts)))
    merged = [reduce(Valued.merge, each) for each in zip(*measured, strict=True)]
    sums = list(zip(plan.specifications, merged, strict=True))
    for each in request.specifications:
        if each.kind == "learner":
            replayed = replay_parts(parts, log, each, plan, found.n)
            sums.append((each, reduce(Valued.merge, _progress(each.name, replayed, len(parts)))))
    return EvaluationAnswer(
        model=model.name,
        rounds=found.n,
        first_round=found.first,
        last_round=found.last,
        level=LEVEL,
        clip=plan.settings.clip,
        seed=plan.settings.seed,
        policies=[
            policy_value(each.name, _label(each, plan, model), one, plan.settings, plan.largest_cost)
            for each, one in sums
        ],
        notes=[
            *_of_file(parts, model, found.largest_cost),
            *_notes(plan.rewards),
            *([] if plan.uses_holdout else [HOLDOUT_LEFT_OUT]),
            *_warnings(missing),
        ],
    )


def _progress(what: str, results: Iterator[_T], total: int) -> Iterator[_T]:
    return iter(track(results, what, total=total, console=Console(stderr=True), transient=True))


def _survey(parts: Sequence[Part], log: Log, engine: Engine) -> tuple[Survey, list[tuple[int, int]]]:
    """Survey all parts; return the result, and the first and the last round of each hole between parts."""
    surveys = _progress("reading", engine.map(survey, parts, log), len(parts))
    merged, missing = NO_ROUNDS, list[tuple[int, int]]()
    for found, part in zip(surveys, parts, strict=True):
        if merged.n and found.first > merged.last + 1:
            missing.append((merged.last + 1, found.first - 1))
        merged = merged.merge(found, part.name)
    return merged, missing


def _warnings(missing: Sequence[tuple[int, int]]) -> list[str]:
    """Return a warning about holes between parts, if any.

    Holes within a part need no warning: these rounds are missing from the log itself, because they were damaged.
    """
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
    uses_holdout = not found.certain_holdouts
    labels = merged_labels(found.labels, found.labels_of_holdout) if uses_holdout else found.labels
    return Plan(
        specifications,
        Settings(request.seed, request.replicates, clip_for(found.n) if request.clip is None else request.clip),
        None if log.model.has_actions else RewardModel(found.rewards, log.problem),
        uses_holdout,
        found.largest_cost or 1.0,
        -1 if labels is None else choose_label(labels),
        {each.value: read_choices(Path(each.value), log.model) for each in specifications if each.kind == "choices"},
    )


def _label(specification: Specification, plan: Plan, model: LoggedModel) -> str | None:
    if specification.kind == "best_constant":
        return model.labels[plan.best_label]
    return specification.value if specification.kind == "constant" else None


def _of_file(parts: Sequence[Part], model: LoggedModel, largest_cost: float) -> list[str]:
    if model.has_actions or not isinstance(parts[0], RowsPart):
        return []
    free = ", and labels without costs in a row cost 0" if largest_cost else ""
    return [f"The model of the file is unknown: its labels are the {len(model.labels)} that occur{free}."]


def _notes(rewards: RewardModel | None) -> list[str]:
    if rewards is None:
        return ["A model with actions has no reward model: direct and doubly_robust are left out."]
    if rewards.uses_contexts:
        return []
    reason = "too many features occur for a regression" if rewards.leaves_contexts_out else "the log has none"
    return [f"The reward model has no contexts: {reason}."]
