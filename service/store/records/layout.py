"""Every struct of stored predictions and rounds: its fields, their types and their order, for Python and for Lua.

All numbers are little-endian. The only other structs of records are those of `format_3`, which is frozen.

A block keeps the predictions that were made together, in one string of the store:

    HEAD | n x PREDICTION | check | open u32 | n x OUTCOME | bodies

The check covers HEAD and every PREDICTION, which never change; a PREDICTION has the check of its body. Feedback
fills in an OUTCOME, and appends a round to the log: ROUND, then the parts of the body. The outcome's check covers the
rest of the OUTCOME, and the token and the body check that follow it in the ROUND. When the last prediction of a block
is closed its bodies are dropped. A body is BODY, then its parts, in this order:

    eligible labels, one bit each (flag ELIGIBLE) | evidence, E x f64 (flag EVIDENCE) | context | context as it was
    sent | a vector for each action

This version writes bodies with evidence and context alone, and outcomes of kind FEEDBACK with a reward of 0 or 1. It
refuses to fold a round that has anything else (`NewerVersionError`), but for a context as it was sent, which it skips:
nothing that changes what a learner learns is passed over by a version that does not know it.
"""

import struct
from collections.abc import Iterator, Mapping
from itertools import takewhile

import numpy as np
import numpy.typing as npt

VERSION = 4
"""Of blocks and of rounds. Version 3 is `format_3`; a later one is refused."""

CHECK_BYTES = 8
"""A check is the first 8 hexadecimal digits of the SHA-1 of the bytes that it covers, as ASCII."""

EVIDENCE = 1
"""Flag of a body: numbers of the decision follow, of a learner without evidence none. Always set by this version."""

OTHER_FLAGS = {"ELIGIBLE": 2, "HOLDOUT": 4, "FLOAT32": 8, "ACTIVATION": 16}
"""Flags that later versions may set: labels that could be answered, a round to evaluate with and not to learn from, a
context of float32, and one that is reserved."""

OPEN, FEEDBACK, EXPIRED = 0, 1, 2
"""Kinds of outcome. An open one is zeros; EXPIRED is written by no version yet."""

_ANSWER = "answer"
"""The type of an answer or a truth, whose length depends on the model."""

_DTYPES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "i64": "<i8", "f64": "<f8", "8s": "S8", "16s": "S16"}
_CODES = {"u8": "B", "u16": "H", "u32": "I", "i64": "q", "f64": "d", "8s": "8s", "16s": "16s"}
_LUA_CODES = {"u8": "B", "u16": "I2", "u32": "I4", "i64": "i8", "f64": "d", "8s": "c8", "16s": "c16"}
"""The types as numpy, Python's `struct` and the store's `struct` name them."""


class Layout:
    """The fields of one struct, without padding.

    Args:
        fields: the type of each field, by name, in order.
    """

    def __init__(self, **fields: str) -> None:
        self.fields: Mapping[str, str] = fields

    def dtype(self, answer: npt.DTypeLike = "V0") -> np.dtype[np.void]:
        """Return the numpy dtype, with this one for answers and truths."""
        dtypes = _DTYPES | {_ANSWER: answer}
        return np.dtype([(name, dtypes[type_]) for name, type_ in self.fields.items()])

    @property
    def size(self) -> int:
        """Bytes, without those of answers and truths."""
        return self.dtype().itemsize

    def struct(self, answer_bytes: int = 0) -> struct.Struct:
        """Return the struct, with answers and truths as bytes."""
        codes = _CODES | {_ANSWER: f"{answer_bytes}s"}
        return struct.Struct("<" + "".join(codes[type_] for type_ in self.fields.values()))

    def place(self, field: str, answer: npt.DTypeLike = "V0") -> int:
        """Return how many bytes come before a field."""
        dtype, names = self.dtype(answer), list(self.fields)
        return sum(dtype[name].itemsize for name in names[: names.index(field)])

    def lua(self, name: str) -> Iterator[str]:
        """Yield the declarations of a script: the format up to the first answer, the size, the place of each field.

        Places count from 1, as Lua does. Fields after an answer have none.
        """
        fixed = list(takewhile(lambda type_: type_ != _ANSWER, self.fields.values()))
        yield f"local {name}, {name}_BYTES = '<{''.join(_LUA_CODES[type_] for type_ in fixed)}', {self.size}"
        for field in list(self.fields)[: len(fixed) + 1]:
            yield f"local {name}_{field.upper()} = {self.place(field) + 1}"


HEAD = Layout(
    version="u8",
    # Where version 3 has them: release 0.1.0 allocates by these lengths before it refuses the version.
    predictions="u32",
    flags="u32",  # 0
    answer_bytes="u32",
    fingerprint="16s",  # of the request's body; zeros where the service named the block
    expires_at="f64",  # seconds since the epoch, as all moments
    rounds_seen="i64",
    changes_seen="u32",
)

PREDICTION = Layout(
    begin="u32",  # of the body, among the bodies
    end="u32",
    token="i64",  # see `service.prediction_id`
    body_check="8s",
    propensity="f64",
    output=_ANSWER,
)

OUTCOME = Layout(
    check="8s",
    kind="u8",
    reward="f64",  # 1 for right, 0 for wrong
    feedback_at="f64",
    round="i64",  # its number
    truth=_ANSWER,  # every bit 1 where it is unknown
)

BODY = Layout(
    flags="u16",
    propensity="f64",
    rounds_seen="i64",
    changes_seen="u32",
    predicted_at="f64",
    residual_uniform="f64",
    context_bytes="u32",
    sent_bytes="u32",
    actions_bytes="u32",
    output=_ANSWER,
)

ROUND = Layout(
    length="u32",  # of the whole round, this field and the parts of the body included
    **OUTCOME.fields,
    token="i64",
    body_check="8s",
    **BODY.fields,
)

OPEN_COUNT = Layout(open="u32")
