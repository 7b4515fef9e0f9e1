"""The law of stored bytes: whatever they are, a worker reads sound values from them, or raises a documented error."""

import contextlib
import dataclasses

import numpy as np
from hypothesis import given

from learners.base import Problem
from learners.codec import encode_state
from learners.registry import ALL_LEARNERS
from service.errors import ModelFileError, NewerFileError, NewerVersionError, StoreError
from service.lifecycle.import_validation import checked_statistics
from service.lifecycle.model_file import ExportedImport, ExportedModel, file_of, read_file
from service.replicas.statistics import RoundStatistics, decode_statistics
from service.store.records.layout import CHECK, HEAD, PREDICTION, ROUND, VERSION
from tests.service.damaged_bytes import FUZZ, damaged
from tests.service.sample_models import definition
from tests.service.store.samples import FORMAT, as_round, check_bytes, resealed, sample_block, without_bodies

ANSWER = FORMAT.answers.dtype.itemsize
BLOCKS = [each for n in (1, 3) for each in (sample_block("b", n).record, without_bodies(sample_block("b", n).record))]
ROUNDS = [as_round(BLOCKS[2], i, (i == 1, 1.8e9 + i, i + 1), None) for i in range(3)]
STATISTICS = [RoundStatistics(labels=3).encode(), dataclasses.replace(RoundStatistics(), rounds=5, correct=2).encode()]
FILES = [
    b"".join(
        file_of(
            ExportedModel(
                name="m",
                definition=definition("m"),
                changes=[{"a": 1}],
                rounds=3,
                created_at=1.0,
                imports=[ExportedImport(source="s", position=3, at=1.0)],
            ),
            STATISTICS[0],
            memoryview(encode_state(learner, learner.init())),
            "1",
        )
    )
    for learner in (ALL_LEARNERS[name](problem=Problem(3, 4, 1.0)) for name in ("banditron", "soba", "folklore"))
]


def sealed_block(record: bytes) -> bytes:
    if len(record) <= HEAD.size:
        return record
    n, answer = HEAD.struct().unpack_from(record)[1], record[HEAD.place("answer_bytes")]
    at = HEAD.size + n * (PREDICTION.size + answer)
    checked = bytes([VERSION]) + record[1:at]
    return checked + check_bytes(checked) + record[at + CHECK.size :]


def sealed_round(payload: bytes) -> bytes:
    if len(payload) <= ROUND.size + ANSWER:
        return payload
    return resealed(len(payload).to_bytes(4, "little") + payload[4:], ANSWER)


@FUZZ
@given(damaged(BLOCKS))
def test_blocks_are_read_or_corrupt(record: bytes) -> None:
    for each in (record, sealed_block(record)):
        for read in (FORMAT.decode_stored, FORMAT.waiting):
            with contextlib.suppress(StoreError):
                read(each)


@FUZZ
@given(damaged([*ROUNDS, b"".join(ROUNDS)]))
def test_rounds_are_finite_or_corrupt(payload: bytes) -> None:
    for each in (payload, sealed_round(payload)):
        with contextlib.suppress(StoreError):
            FORMAT.round_bounds(each)
            assert np.isfinite(FORMAT.decode_rounds([each]).contexts.values).all()


def check_statistics(data: bytes) -> None:
    with contextlib.suppress(ModelFileError, NewerFileError):
        assert decode_statistics(checked_statistics(data, 5)).rounds <= 5
    with contextlib.suppress(ValueError, NewerVersionError):
        found = decode_statistics(data)
        assert decode_statistics(found.encode()).encode() == found.encode()


@FUZZ
@given(damaged(STATISTICS))
def test_statistics_are_read_or_refused(data: bytes) -> None:
    check_statistics(data)


@FUZZ
@given(damaged(FILES))
def test_model_files_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ModelFileError, NewerFileError):
        found = read_file(memoryview(data))
        assert found.model.model_dump_json().encode()
        check_statistics(found.statistics)
