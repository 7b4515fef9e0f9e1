"""The costs, their weight and the budget after some changes, read from the log without the code of the service."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from service.choice.requests import Options
from service.models.model import Model
from service.store.values import ChangeEntry, LogEntry
from tests.simulation.pace import Pace
from tests.simulation.rules_in_force import read_change


class PricesInForce(NamedTuple):
    """The labels, with retired ones, and the policies about costs, as JSON."""

    labels: Sequence[str]
    costs: dict[str, float] | None
    cost_weight: float
    budget: dict[str, Any] | None

    @staticmethod
    def at_first(model: Model) -> "PricesInForce":
        """Return the policies with which a model was created."""
        policies = model.definition.model_dump(mode="json", include={"labels", "costs", "cost_weight", "budget"})
        return PricesInForce(**policies)

    def after(self, entries: Sequence[LogEntry | ChangeEntry], change_count: int) -> "PricesInForce":
        """Return the policies after the first changes of a log."""
        found = self
        for entry in entries:
            if isinstance(entry, ChangeEntry) and entry.change_count <= change_count:
                change = read_change(entry.payload)
                policies = {name: value for name, value in change.get("policies", {}).items() if name in self._fields}
                labels = [*found.labels, *(change.get("labels") or {}).get("add", [])]
                found = found._replace(**policies, labels=labels)
        return found

    def of(self, options: Options, pace: Pace) -> tuple[float, list[float]] | None:
        """Return λ and the cost of each label for a request; None if neither the model nor the request has costs."""
        if self.costs is None and options.costs is None:
            return None
        costs = {**(self.costs or {}), **dict(options.costs or ())}
        weight = self.cost_weight if self.budget is None else pace.weight(self.budget)
        if options.cost_weight is not None:
            weight = options.cost_weight
        return weight, [costs.get(label, 0.0) for label in self.labels]
