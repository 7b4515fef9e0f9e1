"""Feedback as `lua/add_feedback.lua` reads it, by the blocks that its predictions are in, and its judgement."""

import struct
from collections.abc import Iterable, Mapping, Sequence

from service.errors import StoreCorruptError
from service.store.base import Feedback, FeedbackResult, FeedbackStatus
from service.store.outcomes import decode_outcomes

_SAID = struct.Struct("<qBI")
"""token i64, correct u8 (1, 0, or 2 where only the truth is given), bytes of the truth u32; the truth follows."""

_STATUSES = {ord(status.value[0]): status for status in FeedbackStatus}

_WITH_OUTCOME = b"rdc"
"""The letters of recorded, duplicate and conflict."""


def by_block(feedback: Iterable[Feedback]) -> tuple[list[str], dict[str, list[bytes]]]:
    """The block of each feedback, and for each block what is said of its predictions, in the order given."""
    order: list[str] = []
    said: dict[str, list[bytes]] = {}
    for (_, block, token), correct, truth in feedback:
        order.append(block)
        packed = _SAID.pack(token, 2 if correct is None else correct, len(truth or b"")) + (truth or b"")
        said.setdefault(block, []).append(packed)
    return order, said


def in_order(
    order: Sequence[str], said: Mapping[str, object], replies: Iterable[tuple[bytes, bytes]]
) -> list[FeedbackResult]:
    """What became of each feedback, from the replies for each block. Trouble with one block is no other's."""
    of_block = {block: iter(_decode_results(*reply)) for block, reply in zip(said, replies, strict=True)}
    return [next(of_block[block]) for block in order]


def _decode_results(letters: bytes, outcomes: bytes) -> list[FeedbackResult]:
    try:
        known = iter(decode_outcomes(outcomes, len(letters) - len(letters.translate(None, _WITH_OUTCOME))))
    except StoreCorruptError:
        return [FeedbackResult(FeedbackStatus.BROKEN, None)] * len(letters)
    return [FeedbackResult(_STATUSES[letter], next(known) if letter in _WITH_OUTCOME else None) for letter in letters]
