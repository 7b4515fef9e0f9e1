"""Isolates failed predictions from the other predictions of their batch."""

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
    """Some decisions of a batch are invalid, so none of the batch was stored.

    Attributes:
        sound: which decisions are valid, (n,); None if the learner raised and the failing contexts are unknown.
    """

    def __init__(self, sound: BoolArray | None) -> None:
        super().__init__("the learner made an invalid decision")
        self.sound = sound


async def without_impossible(
    predict_each: Callable[[Sequence[_Item]], Awaitable[list[_Result | Exception]]],
    items: Sequence[_Item],
    error: ImpossibleDecisionsError,
    model: str,
) -> list[_Result | Exception]:
    """Predict each item; return `LearnerFailedError` for items with an invalid decision.

    The other items are decided and drawn again. An item's own draw never causes its redraw, so its propensity
    stays correct.

    Args:
        predict_each: predicts some of the items, and isolates invalid decisions in turn.
        items: at least one.
        error: the error of predicting all items together.
        model: the model's name, for the log.
    """
    if error.sound is None and len(items) > 1:
        half = len(items) // 2
        return [*await predict_each(items[:half]), *await predict_each(items[half:])]
    sound = [False] if error.sound is None else error.sound.tolist()
    _log.error("the learner of model %s failed for %d of %d contexts", model, sound.count(False), len(sound))
    refusal = LearnerFailedError(f"the learner of model {model!r} cannot decide for this context")
    return await apply_to_valid(predict_each, [item if ok else refusal for item, ok in zip(items, sound, strict=True)])
