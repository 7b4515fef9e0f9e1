"""Refuses contexts beyond the norm bound, for models that reject them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from learners.base import ContextNorm, NormPolicy
from service.contexts.kind import ContextKind
from service.contexts.registry import GivenContext
from service.errors import NormExceededError
from service.wording.values import shown


class ContextCheck(NamedTuple):
    """A norm policy, its bound, and the norm that it limits."""

    kind: ContextKind[Any]
    policy: NormPolicy
    bound: float
    norm: ContextNorm

    def check(self, context: GivenContext, numbers: Sequence[float]) -> None:
        """Check the norm of a context, if the policy is to reject.

        Args:
            context: the context of the request.
            numbers: its numbers.

        Raises:
            NormExceededError: if it exceeds the bound. Names the entry if the bound limits each entry.
        """
        if self.policy != "reject":
            return
        if self.norm == "maximum":
            self._check_entries(context, numbers)
        elif math.hypot(*numbers) > self.bound:
            detail = f"got a norm of {math.hypot(*numbers):.9g}; must be at most the model's norm_bound, {self.bound:g}"
            raise NormExceededError(detail, "context")

    def _check_entries(self, context: GivenContext, numbers: Sequence[float]) -> None:
        for position, number in enumerate(numbers):
            if abs(number) > self.bound:
                feature, field = self.kind.entry(context, position)
                detail = (
                    f"got {shown(number)} for feature {feature}; must be between -{self.bound:g} and {self.bound:g}"
                )
                raise NormExceededError(detail, field)
