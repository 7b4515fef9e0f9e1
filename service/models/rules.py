"""Checks of a model's rules: whether they name labels of the model, and can hold together."""

import math
from collections.abc import Collection

from learners.base import AnyLearner
from service import errors
from service.error_messages.values import quoted, shown
from service.schemas.models import ModelDefinition
from service.schemas.rules import Rules

_WITHOUT_COSTS = "This is for a cost_weight of 0: with costs, decisions give up reward that is not worth its cost."
_ROUNDING = 1e-12  # by which sums may miss 1
_ROUNDING_OF_DIGITS = 1e-6  # of the last digit shown, which a sum of decimal fractions may exceed


def check_rules(
    definition: ModelDefinition, learner: AnyLearner, retired: Collection[str], retired_before: Collection[str]
) -> None:
    """Raise `InvalidInputError` if the rules do not fit the model, or can never hold together.

    `retired_before` contains the labels that were retired before the last change, which retired `retired`.
    """
    rules = definition.rules
    if rules is None:
        return
    if learner.answer in ("label-set", "ranking"):
        raise errors.InvalidInputError(f"must be null, as {learner.algorithm} answers several labels", "rules")
    if definition.actions is not None:
        if rules.groups:
            raise errors.InvalidInputError("must be left out: the group of an action is its tag", "rules.groups")
        _check_sums(rules, ())
        return
    _check_names(rules, definition.labels, retired, retired_before)
    _check_sums(rules, [label for label in definition.labels if label not in retired])


def _check_names(rules: Rules, labels: Collection[str], retired: Collection[str], before: Collection[str]) -> None:
    known, owner = set(labels), dict[str, str]()
    for group, members in rules.groups.items():
        if group in known:
            detail = f"got the name {quoted(group)}, which is a label; a group needs another name"
            raise errors.InvalidInputError(detail, f"rules.groups.{group}")
        for i, label in enumerate(members):
            field = f"rules.groups.{group}.{i}"
            _check_label(label, known, retired, before, field)
            if label in owner:
                detail = f"got {quoted(label)}, which belongs to the group {quoted(owner[label])}; groups are disjoint"
                raise errors.InvalidInputError(detail, field)
            owner[label] = group
    for kind, shares in (("floor", rules.floor), ("cap", rules.cap)):
        for name in shares:
            if name not in rules.groups:
                _check_label(name, known, retired, before, f"rules.{kind}.{name}")


def _check_label(
    label: str, known: Collection[str], retired: Collection[str], before: Collection[str], field: str
) -> None:
    if label not in known:
        raise errors.UnknownLabelError(f"got {quoted(label)}; the model has no such label or group", field)
    if label in before:
        raise errors.RetiredLabelError(f"got {quoted(label)}; the model has retired this label", field)
    if label in retired:
        detail = f"the rules name {quoted(label)}, so the model cannot retire it; change the rules in the same request"
        raise errors.RetiredLabelError(detail, field)


def _check_sums(rules: Rules, labels: Collection[str]) -> None:
    """Check that some distribution over the labels obeys the rules; without labels, over actions of every tag."""
    for name, share in rules.floor.items():
        if share > (cap := rules.cap.get(name, 1.0)):
            raise errors.InvalidInputError(f"got {shown(share)}; its cap is {shown(cap)}", f"rules.floor.{name}")
    low, high = _label_bounds(rules, labels)
    for name, cap in rules.cap.items():
        if rules.floor_each > cap and (name in high or not labels):
            detail = f"got {shown(rules.floor_each)}; the cap of {quoted(name)} is {shown(cap)}"
            raise errors.InvalidInputError(detail, "rules.floor_each")
    for group, members in rules.groups.items():
        least, most = (math.fsum([bounds.pop(each) for each in members]) for bounds in (low, high))
        low[group], high[group] = _range_of_group(rules, group, least, most)
    floors = math.fsum(low.values() if labels else rules.floor.values())
    if floors > 1.0 + _ROUNDING:
        raise errors.InvalidInputError(f"the floors sum to {shown(floors)}; they must sum to at most 1", "rules")
    if labels and (caps := math.fsum(high.values())) < 1.0 - _ROUNDING:
        raise errors.InvalidInputError(f"the caps sum to {shown(caps)}; they must sum to at least 1", "rules")


def _label_bounds(rules: Rules, labels: Collection[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the floors and the caps of labels."""
    low = {label: max(rules.floor.get(label, 0.0), rules.floor_each) for label in labels}
    return low, {label: rules.cap.get(label, 1.0) for label in labels}


def _range_of_group(rules: Rules, group: str, least: float, most: float) -> tuple[float, float]:
    """Return the bounds of a group whose labels have floors that sum to `least`, and caps that sum to `most`."""
    floor, cap = rules.floor.get(group, 0.0), rules.cap.get(group, 1.0)
    if floor > most + _ROUNDING:
        detail = f"got {shown(floor)}; the caps of its labels sum to {shown(most)}"
        raise errors.InvalidInputError(detail, f"rules.floor.{group}")
    if least > cap + _ROUNDING:
        detail = f"got {shown(cap)}; the floors of its labels sum to {shown(least)}"
        raise errors.InvalidInputError(detail, f"rules.cap.{group}")
    return max(floor, least), min(cap, most)


def guarantee_of(learner: AnyLearner, moved: float, *, weighs_costs: bool) -> str:
    """Return what is proved for a model whose rules move at most this probability in each round: see `moved_by`.

    `weighs_costs` says whether its decisions give up reward for lower costs.
    """
    proved = f"{learner.guarantee} {_WITHOUT_COSTS}" if weighs_costs else learner.guarantee
    if moved == 0.0:
        return proved
    return (
        f"{proved} This is for the learner's own distribution. The rules move at most {_rounded_up(moved)} of its "
        f"probability in each round, so the expected mistakes of T rounds exceed those of draws from it by at most "
        f"{_rounded_up(moved)} T."
    )


def _rounded_up(bound: float) -> str:
    """Return a bound above 0 with four significant digits, which do not claim less."""
    step = 10.0 ** (math.floor(math.log10(bound)) - 3)
    return f"{math.ceil(bound / step - _ROUNDING_OF_DIGITS) * step:.4g}"


def moved_by(definition: ModelDefinition) -> float:
    """Return the largest probability that the rules may move to other answers in one round, from 0 to 1.

    If the ungrouped labels between their bounds have shrunk, what has risen is at a floor, and has risen by at most all
    floors together. If they have grown, what has fallen is at a cap: by at most 1 minus the smallest cap, and in a
    capped group by the floors inside it too.
    """
    rules = definition.rules
    if rules is None:
        return 0.0
    if rules.floor_each > 0.0 and definition.actions is not None:  # for any number of actions
        return 1.0
    low, _ = _label_bounds(rules, definition.labels)
    inside = {group: math.fsum([low.pop(each) for each in members]) for group, members in rules.groups.items()}
    groups = inside if definition.labels else rules.floor
    least = math.fsum([*low.values(), *(max(rules.floor.get(name, 0.0), inside.get(name, 0.0)) for name in groups)])
    capped = math.fsum([floors for group, floors in inside.items() if group in rules.cap])
    return min(1.0, max(least, 1.0 - min(rules.cap.values()) + capped)) if rules.cap else min(1.0, least)
