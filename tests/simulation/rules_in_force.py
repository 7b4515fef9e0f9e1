"""The labels and the rules of a model after some of its changes, read from the log without the code of the service."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from service.models.model import Model
from service.store.values import ChangeEntry, LogEntry
from tests.simulation.nearest import nearest


class RulesInForce(NamedTuple):
    """The labels, with retired ones, and the rules, as JSON."""

    labels: Sequence[str]
    rules: dict[str, Any] | None

    @staticmethod
    def at_first(model: Model) -> "RulesInForce":
        """Return the labels and rules with which a model was created."""
        rules = model.definition.rules
        return RulesInForce(model.definition.labels, None if rules is None else rules.model_dump())

    def after(self, entries: Sequence[LogEntry | ChangeEntry], change_count: int) -> "RulesInForce":
        """Return the labels and rules after the first changes of a log."""
        labels, rules = [*self.labels], self.rules
        for entry in entries:
            if isinstance(entry, ChangeEntry) and entry.change_count <= change_count:
                change = read_change(entry.payload)
                labels += (change.get("labels") or {}).get("add", [])
                rules = change.get("policies", {}).get("rules", rules)
        return RulesInForce(labels, rules)

    def nearest_to(self, q: Sequence[float], eligible: Sequence[bool]) -> Sequence[float]:
        """Return the distribution with which the model must answer if its learner's is q; no mask means all labels."""
        if self.rules is None:
            return q
        return nearest(q, self.labels, self.rules, eligible or [True] * len(self.labels))


@lru_cache(1000)
def read_change(payload: bytes) -> dict[str, Any]:
    """Return a change as JSON."""
    change: dict[str, Any] = json.loads(payload)
    return change
