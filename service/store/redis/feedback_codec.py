"""Encodes feedback for `lua/add_feedback.lua`, grouped by block, and decodes the script's results."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from service.errors import StoreCorruptError
from service.store.records.outcomes import decode_outcomes
from service.store.values import Feedback, FeedbackResult, FeedbackStatus
from service.tuples import named_tuples

EncodedFeedback: TypeAlias = Mapping[str, Sequence[bytes]]
"""Encoded feedback items by block."""

_FEEDBACK, _TOKEN, _REWARD = struct.Struct("<qBI"), struct.Struct("<q"), struct.Struct("<d")
"""`_FEEDBACK` packs the token, the kind of content (`lua/add_feedback.lua` lists them), and the size of the content."""

_ONLY_TRUTH, _ONLY_REWARD = 2, 3

_STATUSES = {ord(status.value[0]): status for status in FeedbackStatus}  # scripts return a status as its first letter

_WITH_OUTCOME = b"rdc"
"""The letters of the statuses recorded, duplicate and conflict."""


def by_block(feedback: Iterable[Feedback]) -> tuple[list[str], dict[str, list[bytes]]]:
    """Return the block of each feedback item, and each block's encoded items, both in the given order."""
    order: list[str] = []
    encoded: dict[str, list[bytes]] = {}
    pack = _FEEDBACK.pack
    for (_, block, token), correct, truth, reward, _ in feedback:
        order.append(block)
        if truth is None and reward is None and correct is not None:
            packed = pack(token, correct, 0)
        else:
            said, rest = _said(correct, truth, reward)
            packed = pack(token, said, len(rest)) + rest
        encoded.setdefault(block, []).append(packed)
    return order, encoded


def _said(correct: bool | None, truth: bytes | None, reward: float | None) -> tuple[int, bytes]:
    if reward is None:
        return _ONLY_TRUTH if correct is None else int(correct), truth or b""
    if reward in (0.0, 1.0):
        return int(reward), b""
    return _ONLY_REWARD, _REWARD.pack(reward)


def encoded_token(token: int) -> bytes:
    """Encode a token as an argument for a script."""
    return _TOKEN.pack(token)


def activation_status(letter: bytes) -> FeedbackStatus:
    """Return the status for a letter that `lua/activate.lua` returns."""
    return _STATUSES[ord(letter)]


def in_order(order: Sequence[str], results: Mapping[str, Iterable[FeedbackResult]]) -> list[FeedbackResult]:
    """Return the results of all blocks in the order of the feedback. `order` is that from `by_block`."""
    of_block = {block: iter(each) for block, each in results.items()}
    return [next(of_block[block]) for block in order]


def decode_results(letters: bytes, outcomes: bytes) -> list[FeedbackResult]:
    """Decode the results of one block; all are `BROKEN` if its outcomes cannot be decoded."""
    try:
        n = len(letters) - len(letters.translate(None, _WITH_OUTCOME))
        found = decode_outcomes(outcomes, n)
    except StoreCorruptError:
        return [FeedbackResult(FeedbackStatus.BROKEN, None)] * len(letters)
    if n == len(letters):
        return named_tuples(FeedbackResult, zip(map(_STATUSES.__getitem__, letters), found, strict=True))
    known = iter(found)
    return [FeedbackResult(_STATUSES[letter], next(known) if letter in _WITH_OUTCOME else None) for letter in letters]
