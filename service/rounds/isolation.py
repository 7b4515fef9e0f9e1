"""Keep a failure of one prediction from those that are made together with it."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from learners.base import BoolArray
from service.errors import LearnerFailedError
from service.per_item import apply_to_valid

_log = logging.getLogger(__name__)

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


async def without_impossible(
    predict_each: Callable[[Sequence[_Item]], Awaitable[list[_Result | Exception]]],
    items: Sequence[_Item],
    error: ImpossibleDecisionsError,
    model: str,
) -> list[_Result | Exception]:
    """Return what is predicted for each item; `LearnerFailedError` where its decision is impossible.

    The others are decided and drawn anew: whether that is done does not depend on what was drawn for them.

    Args:
        predict_each: predicts for some of the items, and isolates those whose decisions are impossible.
        items: at least one.
        error: raised when all of them were predicted together.
        model: the name, for the log.
    """
    if error.sound is None and len(items) > 1:
        half = len(items) // 2
        return [*await predict_each(items[:half]), *await predict_each(items[half:])]
    sound = [False] if error.sound is None else error.sound.tolist()
    _log.error("the learner of model %s failed for %d of %d contexts", model, sound.count(False), len(sound))
    refusal = LearnerFailedError(f"the learner of model {model!r} cannot decide for this context")
    return await apply_to_valid(predict_each, [item if ok else refusal for item, ok in zip(items, sound, strict=True)])
