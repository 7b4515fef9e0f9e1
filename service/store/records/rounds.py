"""Reads and verifies log rounds in the format of this version (`layout.ROUND`)."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from learners.base import FloatArray, IntArray
from service.errors import NewerVersionError, StoreCorruptError
from service.store.records.codecs import AnswerCodec, ContextCodec
from service.store.records.layout import (
    ELIGIBLE,
    EVIDENCE,
    EXPIRED,
    FEEDBACK,
    FLAGS,
    GIVEN_COST,
    PRICE,
    PRICED,
    ROUND,
    SIZES,
    SIZES_GIVEN,
    check_of,
)
from service.store.records.optional_fields import mask_bytes
from service.store.records.outcomes import holds
from service.store.records.round_table import RawRounds, Table, row_dtype

_UNKNOWN_FLAGS = 0xFFFF & ~FLAGS

_OPTIONAL = ((SIZES_GIVEN, SIZES.size), (PRICED, PRICE.size))
_PRICE = PRICE.struct()

_ACTIONS = 2
"""The column of actions in the result of `StoredRounds._sizes`."""


class StoredRounds:
    """Reads the logged rounds of one model.

    Args:
        answers: the codec of the model's answers.
        evidence_size: E, the number of evidence values per prediction.
        contexts: the codec of the model's contexts.
        has_actions: whether the model's rounds may have actions.
        since: the number of the change that set the learner; 0 if the definition did. Predictions that have seen fewer
            changes contain the evidence of another learner, which may have any size.
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
        # The bytes of context, actions and JSON in a round without SIZES.
        self._usual = (size or 0, 0, 0)
        self._kind_at, self._told_at = (ROUND.place(field, answers.dtype) for field in ("kind", "propensity"))

    @property
    def least_bytes(self) -> int:
        """Bytes of a round without optional parts and, if contexts differ in size, without its context."""
        return self._fixed.itemsize + SIZES.size if self._whole is None else self._whole.itemsize

    def bounds(self, payload: bytes) -> list[int]:
        """Return the start of each round in an entry, and the entry's end.

        If a stored length is damaged, derive the lengths from other fields.

        Raises:
            StoreCorruptError: if the entry cannot be split.
        """
        found = (
            self._alike(payload)
            or self._walk(payload, self._stored_length)
            or self._walk(payload, self._length_of_fields)
        )
        if found is None:
            raise StoreCorruptError("an entry cannot be split into rounds")
        return found

    def read(self, payloads: Sequence[bytes]) -> RawRounds:
        """Read the rounds of consecutive entries.

        Raises:
            StoreCorruptError: if a round is damaged, or belongs to another model.
            NewerVersionError: if all rounds are intact, but this version does not support a part or outcome of one.
        """
        data = b"".join(payloads)
        if (whole := self._of_one_length(data)) is not None:
            self._verify(data, range(0, len(data) + 1, whole.itemsize), whole["core"])
            contexts, offsets = whole["context"].tobytes(), np.arange(len(whole) + 1) * whole["context"].itemsize
            nothing = [b""] * len(whole)
            table = self._table(whole["core"], whole["evidence"])
            prices = np.empty((len(whole), 0))
            return RawRounds(table, contexts, offsets, nothing, nothing, nothing, prices, nothing)
        at = self._all_bounds(payloads)
        core = np.frombuffer(_gathered(data, at, 0, self._core.itemsize), self._core)
        self._verify(data, at, core)
        return self._of_fields(data, at, core)

    def _alike(self, payload: bytes) -> list[int] | None:
        """Return the result of `_walk`, much faster, if all rounds have the same stored length; otherwise None."""
        size = int.from_bytes(payload[:4], "little")
        if size < self._core.itemsize or len(payload) % size:
            return None
        n = len(payload) // size
        alike = all(payload[i::size] == payload[i : i + 1] * n for i in range(4))
        return list(range(0, len(payload) + 1, size)) if alike else None

    def _stored_length(self, payload: bytes, at: int) -> int:
        return int.from_bytes(payload[at : at + 4], "little")

    def _length_of_fields(self, payload: bytes, at: int) -> int:
        core = np.frombuffer(payload, self._core, 1, at)
        least = self._core.itemsize + sum(size for flag, size in _OPTIONAL if core["flags"][0] & flag)
        if len(payload) < at + least:
            return 0
        bounds = [at, len(payload)]
        sizes = self._sizes(payload, bounds, core).sum() + self._prices(payload, bounds, core)[2].sum()
        return self._fixed.itemsize + (SIZES.size if core["flags"][0] & SIZES_GIVEN else 0) + int(sizes)

    def _walk(self, payload: bytes, length: Callable[[bytes, int], int]) -> list[int] | None:
        """Return the start of each round, and the end of the last; None if that is not the end of the payload.

        `length` returns the length of the round that begins at an offset.
        """
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
        """Read all rounds together, which is fast; return None unless all have a fixed size and no optional parts."""
        if self._whole is None or not data or len(data) % self._whole.itemsize:
            return None
        whole = np.frombuffer(data, self._whole)
        core = whole["core"]
        same = (core["length"] == self._whole.itemsize) & (core["flags"] & (ELIGIBLE | SIZES_GIVEN | PRICED) == 0)
        return whole if holds(same) else None

    def _verify(self, data: bytes, at: Sequence[int], core: Table) -> None:
        """Raise an error for damaged rounds, or else for rounds that this version does not support."""
        if core["length"].tolist() != [stop - start for start, stop in pairwise(at)]:
            raise StoreCorruptError("a round of the log does not have its stored length")
        kind_at, told_at = self._kind_at, self._told_at
        if [check_of(data[start + kind_at : start + told_at]) for start in at[:-1]] != core["check"].tolist():
            raise StoreCorruptError("the outcome of a round fails its check")
        if [check_of(data[start + told_at : stop]) for start, stop in pairwise(at)] != core["body_check"].tolist():
            raise StoreCorruptError("the body of a round fails its check")
        self._refuse_newer(core)

    def _refuse_newer(self, core: Table) -> None:
        if not {FEEDBACK, EXPIRED}.issuperset(core["kind"].tolist()):
            raise NewerVersionError("a round of the log has an outcome that this version does not support")
        if not holds(core["flags"] & (_UNKNOWN_FLAGS | EVIDENCE) == EVIDENCE):
            raise NewerVersionError("a round of the log has parts that this version does not support")

    def _of_fields(self, data: bytes, at: Sequence[int], core: Table) -> RawRounds:
        """Read rounds of different sizes. The evidence takes up the bytes that the other parts leave.

        In rounds from before labels were added, the evidence is shorter, and is padded with zeros. Another learner's
        evidence, which may have any size, is read as zeros; a fold recomputes it.
        """
        sizes, begins, size = self._sizes(data, at, core), self._begins(core), 8 * self._evidence_size
        prices, costs, priced = self._prices(data, at, core)
        if np.isnan(prices[(core["flags"] & PRICED) > 0]).any():  # NaN is for rounds without a price
            raise StoreCorruptError("a round of the log has an impossible cost")
        begins += priced
        if sizes[:, _ACTIONS].any() and not self._has_actions:
            raise NewerVersionError("a round of a model with labels has actions")
        of_evidence = core["length"].astype(np.int64) - begins - sizes.sum(axis=1)
        foreign = (of_evidence >= 0) & (core["changes_seen"] < self._since)
        short = (of_evidence >= 0) & (of_evidence < size) & (core["labels"] < self._n_labels)
        if (of_evidence % 8).any() or not (foreign | short | (of_evidence == size)).all():
            raise StoreCorruptError("the parts of a round do not have their stored lengths")
        begins += np.array(at[:-1], np.int64)
        ends = begins[:, np.newaxis] + np.cumsum(np.column_stack([of_evidence, sizes]), axis=1)
        parts = [
            [data[start:stop] for start, stop in pairwise([begin, *row])]
            for begin, row in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        evidence, masks, contexts, actions, sent = zip(*parts, strict=True) if parts else [()] * 5
        none, of_others = bytes(size), foreign.tolist()
        padded = b"".join(
            [none if other else each.ljust(size, b"\0") for each, other in zip(evidence, of_others, strict=True)]
        )
        table = self._table(core, np.frombuffer(padded, "<f8").reshape(len(core), self._evidence_size))
        offsets = np.cumsum([0, *map(len, contexts)])
        return RawRounds(table, b"".join(contexts), offsets, masks, sent, actions, prices, costs)

    def _begins(self, core: Table) -> IntArray:
        """Return the offset of what follows SIZES in each round, (n,)."""
        begins: IntArray = self._core.itemsize + np.where(core["flags"] & SIZES_GIVEN, SIZES.size, 0)
        return begins

    def _prices(self, data: bytes, at: Sequence[int], core: Table) -> tuple[FloatArray, list[bytes], IntArray]:
        """Return `RawRounds.prices` and `RawRounds.costs`, and the bytes of both in each round, (n,).

        Raises:
            StoreCorruptError: if a round is too short for its costs.
        """
        begins, priced = self._begins(core).tolist(), np.flatnonzero(core["flags"] & PRICED).tolist()
        found, costs, sizes = np.full((len(core), 2), np.nan), [b""] * len(core), np.zeros(len(core), np.int64)
        for i in priced:
            place = at[i] + begins[i]
            if place + PRICE.size > at[i + 1]:
                raise StoreCorruptError("a round is too short for its price")
            *found[i], n = _PRICE.unpack_from(data, place)
            sizes[i] = PRICE.size + GIVEN_COST.size * n
            costs[i] = data[place + PRICE.size : place + sizes[i]]
        return found if priced else found[:, :0], costs, sizes

    def _sizes(self, data: bytes, at: Sequence[int], core: Table) -> IntArray:
        """Return the sizes in bytes of each round's mask, context, actions and JSON, (n, 4).

        Raises:
            StoreCorruptError: if a round is too short for its sizes.
        """
        masks = np.where(core["flags"] & ELIGIBLE, mask_bytes(core["labels"]), 0)
        others, begin = np.tile(np.array(self._usual, np.int64), (len(core), 1)), self._core.itemsize
        given = np.flatnonzero(core["flags"] & SIZES_GIVEN).tolist()
        if any(at[i + 1] - at[i] < begin + SIZES.size for i in given):
            raise StoreCorruptError("a round is too short for the sizes of its parts")
        packed = b"".join([data[at[i] + begin : at[i] + begin + SIZES.size] for i in given])
        others[given] = np.frombuffer(packed, "<u4").reshape(-1, 3)
        return np.column_stack([masks, others])

    def _table(self, core: Table, evidence: FloatArray) -> Table:
        table = np.empty(len(core), self._row)
        for name in self._row.names or ():
            if name != "evidence":
                table[name] = core[name]
        table["evidence"] = evidence
        return table


def _gathered(data: bytes, at: Sequence[int], begin: int, end: int) -> bytes:
    """Join the bytes from `begin` to `end` of each round."""
    return b"".join([data[start + begin : start + end] for start in at[:-1]])
