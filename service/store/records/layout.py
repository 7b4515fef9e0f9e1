"""The structs of stored predictions and rounds, for Python and Lua: their fields, types and order.

All numbers are little-endian.

A block stores one or more predictions of a batch in one string:

    HEAD | n x PREDICTION | check u32 | open u32 | n x OUTCOME | bodies | common

The end that all bodies share is stored once, as `common`; for example, predictions for one request share its context.
The check covers HEAD and every PREDICTION, which never change. A PREDICTION contains the check of its body. Feedback
fills in an OUTCOME and appends a round to the log: ROUND, then the rest of the body. ROUND consists of its length, the
OUTCOME, the PREDICTION without `end`, SEEN from the HEAD, and BODY. The outcome's check covers the rest of the OUTCOME,
and the token and the body check, which follow it in the ROUND. The body check covers what follows it there: ANSWERED
and the whole body. When the last prediction of a block is closed, the bodies are dropped. A body is BODY, then:

    SIZES (flag SIZES_GIVEN) | PRICE | given costs, `costs` x GIVEN_COST (both flag PRICED) | evidence, E x f64 (flag
    EVIDENCE) | eligible labels, one bit each (flag ELIGIBLE) | context | actions | the JSON of the context as the
    client sent it

E, the number of evidence values, and the number of labels are those at the time of the prediction; the model may have
changed since. Without SIZES, the context has the model's fixed size, and nothing follows it. The context is stored as
it was before the norm policy was applied: as the numbers that the client sent, or as the vector into which the features
were hashed. Where that vector has the numbers of a list, the JSON has 0 in its place.

A version refuses unknown flags and kinds of outcome (`NewerVersionError`), so it never ignores data that would change
what is learned.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import takewhile

import numpy as np
import numpy.typing as npt

VERSION = 1
"""Version of the format of blocks and rounds. Other versions are refused."""

EVIDENCE, ELIGIBLE, HOLDOUT, SIZES_GIVEN, PRICED, FOREIGN = 1, 2, 4, 8, 16, 32
"""Flags of a body: it has evidence (always set, even if E is 0); it lists eligible labels; its prediction is used for
evaluation but not learned from; it has SIZES; it has PRICE; its answer is not from the model or its holdout, but from a
log that was imported, or from the policy of the mode `logging`."""

FLAGS = EVIDENCE | ELIGIBLE | HOLDOUT | SIZES_GIVEN | PRICED | FOREIGN
"""All flags that this version supports."""

KEY_BYTES = 160
"""Estimated bytes in the store for a block besides its record: key, entry and expiry. Measured: 151 to 180."""

OPEN, FEEDBACK, EXPIRED, PENDING, INACTIVE = range(5)
"""Kinds of outcome. The OUTCOME of an OPEN prediction is all zeros. EXPIRED means closed without feedback, PENDING that
feedback waits for the window to close, INACTIVE that the prediction awaits activation. The log contains only FEEDBACK
and EXPIRED."""

_EMPTY = hashlib.sha1(usedforsecurity=False)
"""An empty hash, which is never updated. Copying it takes half the time of creating a new one."""


def check_of(*data: bytes) -> int:
    """Return the check of the joined pieces: the first 32 bits of their SHA-1."""
    sha1 = _EMPTY.copy()
    for piece in data:
        sha1.update(piece)
    return int.from_bytes(sha1.digest()[:4], "big")


def digits_of(data: bytes) -> bytes:
    """Return the check of some bytes as 8 hexadecimal digits."""
    return b"%08x" % check_of(data)


_ANSWER = "answer"
"""The type of an answer or a truth. Its length depends on the model."""

_DTYPES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "i64": "<i8", "f64": "<f8", "8s": "S8", "16s": "S16"}
_CODES = {"u8": "B", "u16": "H", "u32": "I", "i64": "q", "f64": "d", "8s": "8s", "16s": "16s"}
_LUA_CODES = {"u8": "B", "u16": "I2", "u32": "I4", "i64": "i8", "f64": "d", "8s": "c8", "16s": "c16"}
"""The names of the types in numpy, in Python's `struct`, and in Lua's `struct`."""


class Layout:
    """The fields of one struct, without padding.

    Args:
        fields: the type of each field under its name, in order: a key of `_DTYPES`, or `_ANSWER`.
    """

    def __init__(self, **fields: str) -> None:
        self.fields: Mapping[str, str] = fields
        self._structs: dict[int, struct.Struct] = {}

    def dtype(self, answer: npt.DTypeLike = "V0") -> np.dtype[np.void]:
        """Return the numpy dtype of the struct. `answer` is the dtype of an answer or truth, empty by default."""
        dtypes = _DTYPES | {_ANSWER: answer}
        return np.dtype([(name, dtypes[type_]) for name, type_ in self.fields.items()])

    @cached_property
    def size(self) -> int:
        """Size in bytes, without answers and truths."""
        return self.dtype().itemsize

    def struct(self, answer_bytes: int = 0) -> struct.Struct:
        """Return the `struct.Struct`, with answers and truths as strings of `answer_bytes` bytes."""
        if answer_bytes not in self._structs:
            codes = _CODES | {_ANSWER: f"{answer_bytes}s"}
            self._structs[answer_bytes] = struct.Struct("<" + "".join(codes[type_] for type_ in self.fields.values()))
        return self._structs[answer_bytes]

    def place(self, field: str, answer: npt.DTypeLike = "V0") -> int:
        """Return the offset of a field in bytes. `answer` is the dtype of the answers and truths that precede it."""
        dtype, names = self.dtype(answer), list(self.fields)
        return sum(dtype[name].itemsize for name in names[: names.index(field)])

    def lua(self, name: str) -> Iterator[str]:
        """Yield Lua declarations: the format up to the first answer, the size without answers, the fields' positions.

        Positions start at 1, as in Lua. Those of fields after an answer depend on the model, so they are omitted.
        """
        fixed = list(takewhile(lambda type_: type_ != _ANSWER, self.fields.values()))
        yield f"local {name}, {name}_BYTES = '<{''.join(_LUA_CODES[type_] for type_ in fixed)}', {self.size}"
        for field in list(self.fields)[: len(fixed) + 1]:
            yield f"local {name}_{field.upper()} = {self.place(field) + 1}"


SEEN = Layout(
    rounds_seen="i64",
    changes_seen="u32",
    labels="u32",  # K at prediction time; the maximum number of actions for models with actions
    digest="8s",  # of the history up to these changes; see `service.store.stored_models.digests_of`
)

HEAD = Layout(
    version="u8",
    predictions="u32",
    flags="u32",  # always 0 in this version
    answer_bytes="u32",
    common_bytes="u32",
    fingerprint="16s",  # hash of the request, or zeros if the service generated the id; last bit flipped if held out
    expires_at="f64",  # seconds since the epoch, like all moments
    released_at="i64",  # moment by which the key has expired; until then, lua/open_bytes.lua counts the block's bytes
    abstention="f64",  # reward of the last label, between 0 and 1, if that label represents abstaining; otherwise 0
    **SEEN.fields,  # the same for all predictions of the block
)

PREDICTION = Layout(
    end="u32",  # offset of the end of its body in the joined bodies
    token="i64",  # see `service.prediction_id`
    body_check="u32",
    propensity="f64",
    output=_ANSWER,
)

ANSWERED = Layout(propensity="f64", output=_ANSWER, **SEEN.fields)
"""What the body check covers in addition to the body: the end of PREDICTION, and SEEN."""

OUTCOME = Layout(
    check="u32",
    kind="u8",
    reward="f64",  # 1 if correct, 0 if wrong; between them if partly right or, if the truth is known, an abstention
    feedback_at="f64",
    round="i64",  # number of the round; 0 if there is none
    truth=_ANSWER,  # if the truth is unknown, every bit is 1
)

BODY = Layout(
    flags="u16",
    predicted_at="f64",
    residual_uniform="f64",  # see `learners.base.Rounds`
)

SIZES = Layout(
    context_bytes="u32",
    actions_bytes="u32",
    sent_bytes="u32",
)

PRICE = Layout(
    cost_weight="f64",  # λ of the decision; -1 if another policy made it
    cost="f64",  # of the answer
    costs="u32",  # how many costs the request gave, which follow
)

GIVEN_COST = Layout(label="u32", cost="f64")

ROUND = Layout(
    length="u32",  # of the whole round, including this field and the parts of the body
    **OUTCOME.fields,
    token="i64",
    body_check="u32",
    **ANSWERED.fields,
    **BODY.fields,
)

CHECK, OPEN_COUNT = Layout(check="u32"), Layout(open="u32")


def lua_prelude() -> str:
    """Return the Lua declarations that are prepended to each script that reads or writes records."""
    lines = ["-- Rendered by service/store/records/layout.py: formats, sizes without answers, 1-based positions."]
    lines.append(f"local VERSION, KEY_BYTES = {VERSION}, {KEY_BYTES}")
    lines += [f"local {kind} = {globals()[kind]}" for kind in ("FEEDBACK", "EXPIRED", "PENDING", "INACTIVE")]
    for name in ("HEAD", "PREDICTION", "CHECK", "OPEN_COUNT", "OUTCOME", "ROUND"):
        lines += globals()[name].lua(name)
    return "\n".join([*lines, ""])
