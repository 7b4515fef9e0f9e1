"""Whole blocks of predictions, as the store keeps them, searched for damage."""

import numpy as np

from service.errors import NewerVersionError, StoreCorruptError
from service.store.records.records import FORMAT, HEAD, RecordFormat, Table


def check_block(form: RecordFormat, record: bytes) -> None:
    """Refuse a block of which a prediction could not be joined with feedback.

    Raises:
        NewerVersionError: if a newer version wrote it.
        StoreCorruptError: if it is damaged.
    """
    if len(record) < HEAD.size or record[0] < FORMAT:
        raise StoreCorruptError("it has an unknown format")
    if record[0] > FORMAT:
        raise NewerVersionError(f"it has format {record[0]}; this version reads {FORMAT}")
    _, n, _, answer_bytes, _, _, rounds_seen = HEAD.unpack_from(record)
    heads_at = HEAD.size + n * form.outcome.itemsize
    bodies_at = heads_at + n * form.head.itemsize
    if n < 1 or answer_bytes != form.shape.answer_bytes or len(record) < bodies_at:
        raise StoreCorruptError("it is cut short, or of another model")
    outcomes = np.frombuffer(record, form.outcome, n, HEAD.size)
    heads = np.frombuffer(record, form.head, n, heads_at)
    open_ones = [i for i in range(n) if outcomes[i].tobytes() == bytes(form.outcome.itemsize)]
    if not open_ones:
        return
    if (
        heads["from"][0]
        or heads["upto"][-1] != len(record) - bodies_at
        or (heads["from"][1:] != heads["upto"][:-1]).any()
    ):
        raise StoreCorruptError("its bodies cannot be told apart")
    _check_open(form, heads[open_ones], record[bodies_at:], rounds_seen)


def _check_open(form: RecordFormat, heads: Table, bodies: bytes, rounds_seen: int) -> None:
    """Read open predictions as the rounds that feedback would make of them."""
    said = np.zeros(1, form.outcome)
    said["round"], said["truth"] = 1, -1
    rounds = []
    for head in heads:
        rest = said.tobytes() + head["token"].tobytes() + bodies[head["from"] : head["upto"]]
        rounds.append((len(rest) + 4).to_bytes(4, "little") + rest)
    table, _ = form.rows(rounds)
    for name in ("output", "propensity"):
        if table[name].tobytes() != heads[name].tobytes():
            raise StoreCorruptError(f"head and body differ in the {name}")
    if (table["rounds_seen"] != rounds_seen).any():
        raise StoreCorruptError("head and body differ in the rounds seen")
