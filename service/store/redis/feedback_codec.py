"""Encodes feedback for `lua/add_feedback.lua`, grouped by the blocks of its predictions, and decodes the results."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from service.errors import StoreCorruptError
from service.store.base import Feedback, FeedbackResult, FeedbackStatus
from service.store.records.layout import VERSION
from service.store.records.outcomes import decode_outcomes

EncodedFeedback: TypeAlias = Mapping[str, Sequence[bytes]]
"""Encoded feedback by block."""

_FEEDBACK = struct.Struct("<qBI")
"""token i64, correct u8 (1, 0, or 2 if only the truth is given), bytes of the truth u32; the truth follows."""

_STATUSES = {ord(status.value[0]): status for status in FeedbackStatus}

_WITH_OUTCOME = b"rdc"
"""The letters of the statuses recorded, duplicate and conflict."""

_OLDER = b"o"
"""The letter of a prediction in a block of version 3."""


def by_block(feedback: Iterable[Feedback]) -> tuple[list[str], dict[str, list[bytes]]]:
    """Return the block of each feedback, and the encoded feedback of each block, in the given order."""
    order: list[str] = []
    encoded: dict[str, list[bytes]] = {}
    for (_, block, token), correct, truth in feedback:
        order.append(block)
        packed = _FEEDBACK.pack(token, 2 if correct is None else correct, len(truth or b"")) + (truth or b"")
        encoded.setdefault(block, []).append(packed)
    return order, encoded


def in_order(order: Sequence[str], results: Mapping[str, Iterable[FeedbackResult]]) -> list[FeedbackResult]:
    """Return the result of each feedback in the original order, from the results of each block."""
    of_block = {block: iter(each) for block, each in results.items()}
    return [next(of_block[block]) for block in order]


def is_older(letters: bytes, _: bytes) -> bool:
    """Check whether a reply reports an untouched block of version 3."""
    return letters.startswith(_OLDER)


def decode_results(letters: bytes, outcomes: bytes, version: int = VERSION) -> list[FeedbackResult]:
    """Decode the results of one block from its reply; return an empty list for an untouched block of version 3."""
    if is_older(letters, outcomes):
        return []
    try:
        n = len(letters) - len(letters.translate(None, _WITH_OUTCOME))
        known = iter(decode_outcomes(outcomes, n, version))
    except StoreCorruptError:
        return [FeedbackResult(FeedbackStatus.BROKEN, None)] * len(letters)
    return [FeedbackResult(_STATUSES[letter], next(known) if letter in _WITH_OUTCOME else None) for letter in letters]
