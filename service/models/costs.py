"""Checks of a model's costs, their weight, and its budget."""

from learners.base import AnyLearner
from learners.mathematics.pacing import Budget, new_pacing, paced_weight
from service import errors
from service.choice.prices import check_weighs_costs
from service.error_messages.values import quoted, shown
from service.schemas.models import ModelDefinition, Policies

_NEARLY_MOST = 99.0  # λ b; it is at most 100: see `learners.mathematics.pacing`


def has_costs(definition: Policies) -> bool:
    """Return whether costs count, or are recorded, in a model with this definition."""
    return (definition.costs, definition.cost_weight, definition.budget) != (None, 0.0, None)


def costs_count(definition: Policies) -> bool:
    """Return whether the decisions of a model with this definition give up reward for lower costs."""
    return definition.cost_weight > 0.0 or definition.budget is not None


def first_weight(definition: Policies) -> float | None:
    """Return the λ of a new model; None if it has no costs."""
    if definition.budget is not None:
        return paced_weight(new_pacing(), Budget(definition.budget.cost))
    return definition.cost_weight if has_costs(definition) else None


def budget_warnings(definition: Policies, cost_weight: float, latest: float) -> list[str]:
    """Return a warning, which begins with `budget`, if not even the largest λ keeps the budget.

    `cost_weight` is λ, and `latest` the mean cost of the latest rounds.
    """
    budget = definition.budget
    if budget is None or cost_weight * budget.cost < _NEARLY_MOST or latest <= budget.cost:
        return []
    return [
        f"budget: the cheapest answers and the exploration cost more than {shown(budget.cost)}, lately {latest:.4g} on "
        "average; raise budget.cost, or explore less (gap_scale, least_exploration)."
    ]


def check_costs(definition: ModelDefinition, learner: AnyLearner) -> None:
    """Raise `InvalidInputError` if the costs, their weight or the budget do not fit the model or its learner."""
    costs, weight, budget = definition.costs, definition.cost_weight, definition.budget
    if not has_costs(definition):
        return
    field = "costs" if costs is not None else "cost_weight" if weight else "budget"
    check_weighs_costs(learner, field)
    if costs is not None:
        if definition.actions is not None:
            raise errors.InvalidInputError("must be null: each action of a request brings its cost", "costs")
        known = set(definition.labels)
        for label in costs:
            if label not in known:
                detail = f"got {quoted(label)}; the model has no such label"
                raise errors.UnknownLabelError(detail, f"costs.{label}")
    if budget is not None:
        _check_budget(definition)


def _check_budget(definition: ModelDefinition) -> None:
    if definition.on_expiry == "drop":
        detail = (
            'must be null if on_expiry is "drop", because answers without feedback cost as well; set on_expiry to what '
            "silence means"
        )
        raise errors.InvalidInputError(detail, "budget")
    if definition.actions is None and definition.costs is None:
        raise errors.InvalidInputError("must be null without costs, which say what each label costs", "budget")
    if definition.cost_weight:
        detail = f"got {shown(definition.cost_weight)}; must be 0 with a budget, which sets the weight itself"
        raise errors.InvalidInputError(detail, "cost_weight")
