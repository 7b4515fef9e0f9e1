"""Stored records: blocks of predictions, rounds of the log, snapshots, statistics and files of models."""

import contextlib
import dataclasses
from collections.abc import Callable

import numpy as np

from learners.base import InvalidStateError, Problem
from learners.codec import encode_state
from learners.registry import ALL_LEARNERS
from service.errors import ModelFileError, NewerFileError, NewerVersionError, StoreError
from service.lifecycle.import_validation import checked_statistics
from service.lifecycle.model_file import ExportedImport, ExportedModel, file_of, read_file
from service.replicas.starts import read_state
from service.replicas.statistics import RoundStatistics, decode_statistics
from service.store.records.layout import CHECK, HEAD, PREDICTION, ROUND, VERSION
from tests.fuzz.target import Target
from tests.service.sample_models import definition
from tests.service.store.samples import (
    FORMAT,
    as_round,
    check_bytes,
    resealed,
    sample_block,
    without_bodies,
)

_ANSWER = FORMAT.answers.dtype.itemsize
_LEARNERS = [ALL_LEARNERS[name](problem=Problem(3, 4, 1.0)) for name in ("banditron", "soba", "gaptron", "folklore")]


def _block(record: bytes) -> bool:
    """Read a block in every way."""
    found = 0
    for read in (FORMAT.decode_stored, FORMAT.waiting):
        try:
            read(record)
        except StoreError:
            continue
        found += 1
    return found > 0


def _sealed_block(record: bytes) -> bool:
    """Read a block whose check fits."""
    if len(record) > HEAD.size:
        n, answer = HEAD.struct().unpack_from(record)[1], record[HEAD.place("answer_bytes")]
        at = HEAD.size + n * (PREDICTION.size + answer)
        record = (
            bytes([VERSION]) + record[1:at] + check_bytes(bytes([VERSION]) + record[1:at]) + record[at + CHECK.size :]
        )
    return _block(record)


def _entry(payload: bytes) -> bool:
    """Read an entry of the log."""
    try:
        FORMAT.round_bounds(payload)
        rounds = FORMAT.decode_rounds([payload])
    except StoreError:
        return False
    assert np.isfinite(rounds.contexts.values).all()
    return True


def _sealed_entry(payload: bytes) -> bool:
    """Read an entry of one round whose checks fit."""
    if len(payload) > ROUND.size + _ANSWER:
        payload = resealed(len(payload).to_bytes(4, "little") + payload[4:], _ANSWER)
    return _entry(payload)


def _state(data: bytes) -> bool:
    """Read a snapshot as one of each learner."""
    found = 0
    for learner in _LEARNERS:
        try:
            state = read_state(learner, data)
        except (InvalidStateError, NewerVersionError):
            continue
        assert len(state) == len(learner.init())
        found += 1
    return found > 0


def _statistics(data: bytes) -> bool:
    """Read statistics; what is read can be written and read again."""
    with contextlib.suppress(ModelFileError, NewerFileError):
        assert decode_statistics(checked_statistics(data, 5)).rounds <= 5
    try:
        found = decode_statistics(data)
    except (ValueError, NewerVersionError):
        return False
    assert decode_statistics(found.encode()).encode() == found.encode()
    return True


def _file(data: bytes) -> bool:
    """Read the file of a model, without its arrays."""
    try:
        found = read_file(memoryview(data))
    except (ModelFileError, NewerFileError):
        return False
    assert found.model.model_dump_json().encode()
    _statistics(found.statistics)
    _state(bytes(found.data))
    return True


def targets() -> list[Target]:
    """Return the targets of stored data."""
    blocks = [sample_block("b", n).record for n in (1, 3)]
    blocks += [without_bodies(each) for each in blocks]
    rounds = [as_round(blocks[1], i, (i == 1, 1.8e9 + i, i + 1), None) for i in range(3)]
    states = [bytes(encode_state(each, each.init())) for each in _LEARNERS]
    counts = [RoundStatistics(labels=3).encode(), dataclasses.replace(RoundStatistics(), rounds=5, correct=2).encode()]
    model = ExportedModel(
        name="m", definition=definition("m"), changes=[{"a": 1}], rounds=3, created_at=1.0,
        imports=[ExportedImport(source="s", position=3, at=1.0)],
    )  # fmt: skip
    files = [b"".join(file_of(model, counts[0], memoryview(each), "1")) for each in states]

    def of(name: str, intact: list[bytes], check: Callable[[bytes], bool]) -> Target:
        return Target(name, intact, check)

    return [
        of("block", blocks, _block),
        of("block-sealed", blocks, _sealed_block),
        of("entry", [*rounds, b"".join(rounds)], _entry),
        of("entry-sealed", rounds, _sealed_entry),
        of("snapshot", states, _state),
        of("statistics", counts, _statistics),
        of("model-file", files, _file),
    ]
