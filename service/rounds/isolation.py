"""Keep a failure of one prediction from those that are made together with it."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from learners.base import BoolArray
from service.errors import LearnerFailedError
from service.per_item import apply_to_valid

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ImpossibleDecisionsError(Exception):
    """Some of the decisions made together cannot be stored. Nothing was.

    Attributes:
        sound: which of them could be; None where the learner raised, and it is not known for which.
    """

    def __init__(self, sound: BoolArray | None) -> None:
        super().__init__("the learner decided the impossible")
        self.sound = sound


def isolating(decide: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn what a learner raises into `ImpossibleDecisionsError`."""

    @wraps(decide)
    def isolated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return decide(*args, **kwargs)
        except Exception as error:
            _log.exception("a learner failed")
            raise ImpossibleDecisionsError(None) from error

    return isolated


async def each_alone(
    predict: Callable[[list[_Item]], Awaitable[list[_Result | Exception]]], items: list[_Item], model: str
) -> list[_Result | Exception]:
    """Return what `predict` answers to each item; `LearnerFailedError` where its decision is impossible.

    The others are decided and drawn anew: whether that is done does not depend on what was drawn for them.

    Args:
        predict: raises `ImpossibleDecisionsError` before it has stored anything.
        items: what to predict, at least one.
        model: the name, for the log.
    """
    try:
        return await predict(items)
    except ImpossibleDecisionsError as error:
        if error.sound is None and len(items) > 1:
            half = len(items) // 2
            return [*await each_alone(predict, items[:half], model), *await each_alone(predict, items[half:], model)]
        sound = [False] if error.sound is None else error.sound.tolist()
        _log.error("the learner of model %s failed for %d of %d contexts", model, sound.count(False), len(sound))
        refusal = LearnerFailedError(f"the learner of model {model!r} cannot decide for this context")

        async def rest(fit: Sequence[_Item]) -> list[_Result | Exception]:
            return await each_alone(predict, list(fit), model)

        return await apply_to_valid(rest, [item if ok else refusal for item, ok in zip(items, sound, strict=True)])
