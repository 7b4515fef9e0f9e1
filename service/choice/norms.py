"""Refuses contexts beyond the norm bound, for models that reject them."""

import math
from typing import Any, NamedTuple

from learners.base import ContextNorm
from learners.mathematics.preparation import Preparation
from service.contexts.kind import ContextKind
from service.input_errors import NormExceededError
from service.wording.values import shown


class ContextCheck(NamedTuple):
    """How contexts are prepared, and the norm that the bound limits."""

    kind: ContextKind[Any]
    preparation: Preparation
    norm: ContextNorm

    @property
    def refuses(self) -> bool:
        """Whether `check` may refuse a context."""
        return self.preparation.policy == "reject"

    def check(self, context: Any) -> None:
        """Check the norm of a checked context, if the policy is to reject.

        Raises:
            NormExceededError: if it exceeds the bound. Names the entry if the bound limits each entry.
        """
        if not self.refuses:
            return
        if self.norm == "maximum":
            self._check_entries(context)
            return
        norm = math.hypot(*self.kind.numbers(context))
        if norm > self.preparation.room:
            raise NormExceededError(f"got a norm of {norm:.9g}; must be at most {self._most}", "context")

    @property
    def _most(self) -> str:
        """The largest norm, and its reason."""
        bound = f"the model's norm_bound, {self.preparation.bound:g}"
        if not self.preparation.intercept:
            return bound
        return f"{self.preparation.room:.9g}, so that context and intercept together stay within {bound}"

    def _check_entries(self, context: Any) -> None:
        bound = self.preparation.room
        for position, number in enumerate(self.kind.numbers(context)):
            if abs(number) > bound:
                feature, field = self.kind.entry(context, position)
                detail = f"got {shown(number)} for feature {feature}; must be between -{bound:g} and {bound:g}"
                raise NormExceededError(detail, field)
