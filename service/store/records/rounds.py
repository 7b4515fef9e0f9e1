"""Reads and verifies log rounds in the format of this version (`layout.ROUND`)."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from learners.base import FloatArray, IntArray
from service.errors import NewerVersionError, StoreCorruptError
from service.store.records.answer_codec import AnswerCodec
from service.store.records.context_codec import ContextCodec
from service.store.records.layout import ELIGIBLE, EVIDENCE, EXPIRED, FEEDBACK, FLAGS, ROUND, check_of
from service.store.records.parts import mask_bytes
from service.store.records.round_table import RawRounds, Table, row_dtype

_UNKNOWN_FLAGS = 0xFFFF & ~FLAGS

_SIZES = ("context_bytes", "sent_bytes", "actions_bytes")
_MASK, _SENT, _ACTIONS = 0, 2, 3
"""Columns of `_sizes`."""


class StoredRounds:
    """Reads the rounds of one model.

    Args:
        answers: the codec of its answers.
        evidence_size: E.
        contexts: the codec of its contexts.
        has_actions: whether its rounds may have actions.
        since: the number of changes after which predictions hold evidence of this size; others may have any.
    """

    def __init__(
        self,
        answers: AnswerCodec,
        evidence_size: int,
        contexts: ContextCodec,
        *,
        has_actions: bool = False,
        since: int = 0,
    ) -> None:
        self._since = since
        self._has_actions = has_actions
        self._n_labels = answers.n_labels
        self._row = row_dtype(answers, evidence_size)
        self._core = ROUND.dtype(answers.dtype)
        self._evidence_size = evidence_size
        fixed = [("core", self._core), ("evidence", "<f8", (evidence_size,))]
        self._fixed = np.dtype(fixed)
        size = contexts.fixed_bytes
        self._whole = None if size is None else np.dtype([*fixed, ("context", f"V{size}")])
        self._kind_at, self._body_at = (ROUND.place(field, answers.dtype) for field in ("kind", "flags"))

    @property
    def least_bytes(self) -> int:
        """Size of a round; without the context if contexts differ in size."""
        return (self._whole or self._fixed).itemsize

    def bounds(self, payload: bytes) -> list[int]:
        """See `RoundReader.bounds`. If a round's length is damaged, its parts give the length."""
        found = (
            self._alike(payload)
            or self._walk(payload, self._stored_length)
            or self._walk(payload, self._length_of_parts)
        )
        if found is None:
            raise StoreCorruptError("an entry cannot be split into rounds")
        return found

    def read(self, payloads: Sequence[bytes]) -> RawRounds:
        """See `RoundReader.read`."""
        data = b"".join(payloads)
        if (whole := self._of_one_length(data)) is not None:
            self._verify(data, range(0, len(data) + 1, whole.itemsize), whole["core"])
            contexts, offsets = whole["context"].tobytes(), np.arange(len(whole) + 1) * whole["context"].itemsize
            nothing = [b""] * len(whole)
            return RawRounds(self._table(whole["core"], whole["evidence"]), contexts, offsets, *[nothing] * 3)
        at = self._all_bounds(payloads)
        core = np.frombuffer(_gathered(data, at, 0, self._core.itemsize), self._core)
        self._verify(data, at, core)
        return self._of_parts(data, at, core)

    def _alike(self, payload: bytes) -> list[int] | None:
        """Return what `_walk` returns for rounds of one stored length, much faster; None for others."""
        size = int.from_bytes(payload[:4], "little")
        if size < self._core.itemsize or len(payload) % size:
            return None
        n = len(payload) // size
        alike = all(payload[i::size] == payload[i : i + 1] * n for i in range(4))
        return list(range(0, len(payload) + 1, size)) if alike else None

    def _stored_length(self, payload: bytes, at: int) -> int:
        return int.from_bytes(payload[at : at + 4], "little")

    def _length_of_parts(self, payload: bytes, at: int) -> int:
        core = np.frombuffer(payload, self._core, 1, at)
        return self._fixed.itemsize + int(_sizes(core).sum())

    def _walk(self, payload: bytes, length: Callable[[bytes, int], int]) -> list[int] | None:
        """Return the start of each round, and the end; None if the last round does not end with the payload."""
        found, at, last = [0], 0, len(payload) - self._core.itemsize
        while at <= last:
            size = length(payload, at)
            if size < self._core.itemsize:
                return None
            at += size
            found.append(at)
        return found if at == len(payload) else None

    def _all_bounds(self, payloads: Sequence[bytes]) -> list[int]:
        found = [0]
        for payload in payloads:
            start = found.pop()
            found += [start + at for at in self.bounds(payload)]
        return found

    def _of_one_length(self, data: bytes) -> Table | None:
        """Read all rounds together, which is fast; return None unless all have the size that this version writes."""
        if self._whole is None or not data or len(data) % self._whole.itemsize:
            return None
        whole = np.frombuffer(data, self._whole)
        core = whole["core"]
        same = (core["length"] == self._whole.itemsize) & (core["context_bytes"] == whole["context"].itemsize)
        return whole if same.all() and not _sizes(core)[:, [_MASK, _SENT, _ACTIONS]].any() else None

    def _verify(self, data: bytes, at: Sequence[int], core: Table) -> None:
        """Refuse damaged rounds, then rounds that this version does not understand."""
        if (core["length"] != np.diff(at)).any():
            raise StoreCorruptError("a round of the log does not have its stored length")
        kind_at, body_at = self._kind_at, self._body_at
        if [check_of(data[start + kind_at : start + body_at]) for start in at[:-1]] != core["check"].tolist():
            raise StoreCorruptError("the outcome of a round fails its check")
        if [check_of(data[start + body_at : stop]) for start, stop in pairwise(at)] != core["body_check"].tolist():
            raise StoreCorruptError("the body of a round fails its check")
        self._refuse_newer(core)

    def _refuse_newer(self, core: Table) -> None:
        if not ((core["kind"] == FEEDBACK) | (core["kind"] == EXPIRED)).all():
            raise NewerVersionError("a round of the log has an outcome that this version does not support")
        if (core["flags"] & _UNKNOWN_FLAGS).any() or not (core["flags"] & EVIDENCE).all():
            raise NewerVersionError("a round of the log has parts that this version does not support")
        if core["actions_bytes"].any() and not self._has_actions:
            raise NewerVersionError("a round of a model with labels has actions")

    def _of_parts(self, data: bytes, at: Sequence[int], core: Table) -> RawRounds:
        """Read rounds of different sizes. Evidence is the rest, and shorter before labels were added.

        That of another learner may have any size. It is read as zeros.
        """
        sizes, begin, size = _sizes(core), self._core.itemsize, 8 * self._evidence_size
        of_evidence = core["length"].astype(np.int64) - begin - sizes.sum(axis=1)
        foreign = (of_evidence >= 0) & (core["changes_seen"] < self._since)
        short = (of_evidence >= 0) & (of_evidence < size) & (core["labels"] < self._n_labels)
        if (of_evidence % 8).any() or not (foreign | short | (of_evidence == size)).all():
            raise StoreCorruptError("the parts of a round do not have their stored lengths")
        ends = begin + np.array(at[:-1])[:, np.newaxis] + np.cumsum(np.column_stack([of_evidence, sizes]), axis=1)
        parts = [
            [data[start:stop] for start, stop in pairwise([first + begin, *row])]
            for first, row in zip(at, ends.tolist(), strict=False)
        ]
        evidence, masks, contexts, sent, actions = zip(*parts, strict=True) if parts else [()] * 5
        none, of_others = bytes(size), foreign.tolist()
        padded = b"".join(
            [none if other else each.ljust(size, b"\0") for each, other in zip(evidence, of_others, strict=True)]
        )
        table = self._table(core, np.frombuffer(padded, "<f8").reshape(len(core), self._evidence_size))
        return RawRounds(table, b"".join(contexts), np.cumsum([0, *map(len, contexts)]), masks, sent, actions)

    def _table(self, core: Table, evidence: FloatArray) -> Table:
        table = np.empty(len(core), self._row)
        for name in self._row.names or ():
            if name != "evidence":
                table[name] = core[name]
        table["evidence"] = evidence
        return table


def _sizes(core: Table) -> IntArray:
    """Return the bytes of each round's mask, context, JSON and actions, (n, 4)."""
    masks = np.where(core["flags"] & ELIGIBLE, mask_bytes(core["labels"]), 0)
    return np.column_stack([masks, *(core[name].astype(np.int64) for name in _SIZES)])


def _gathered(data: bytes, at: Sequence[int], begin: int, end: int) -> bytes:
    """Join the bytes from `begin` to `end` of each round."""
    return b"".join([data[start + begin : start + end] for start in at[:-1]])
