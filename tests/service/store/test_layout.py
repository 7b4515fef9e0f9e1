"""The laws of layouts: Python and the store's scripts read the same bytes at the same offsets."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.store.records import layout
from service.store.records.layout import Layout, check_of, digits_of, lua_prelude
from service.store.redis.redis_store import RedisStore
from tests.servers import raw

STRUCTS: dict[str, Layout] = {
    name: getattr(layout, name) for name in ("HEAD", "PREDICTION", "CHECK", "OPEN_COUNT", "OUTCOME", "ROUND")
}
VALUES: dict[str, Callable[[int], Any]] = {
    "u8": lambda i: 200 + i,
    "u16": lambda i: 60_000 + i,
    "u32": lambda i: 2**31 + i,
    "i64": lambda i: -(2**40) - i,
    "f64": lambda i: i + 1 / 3,
    "8s": lambda i: b"%08d" % i,
    "16s": lambda i: b"%016d" % i,
}


@pytest.mark.parametrize("name", STRUCTS)
@pytest.mark.parametrize("answer_bytes", [1, 4, 40])
async def test_scripts_read_what_python_writes(any_store_url: str, name: str, answer_bytes: int) -> None:
    """The format, size and offset of each field in a script are those of the numpy dtype."""
    struct, fields = STRUCTS[name], STRUCTS[name].fields
    row = np.zeros(1, struct.dtype(f"V{answer_bytes}"))
    given = {field: VALUES[type_](i) for i, (field, type_) in enumerate(fields.items()) if type_ != "answer"}
    for field, value in given.items():
        row[field] = value
    before = list(fields)[: list(fields.values()).index("answer")] if "answer" in fields.values() else list(fields)
    offset_names = ", ".join(f"{name}_{field.upper()}" for field in before)
    script = f"""{lua_prelude()}
        local values = {{struct.unpack({name}, ARGV[1])}}
        values[#values] = nil -- the offset after the values
        local texts = {{}}
        for i, value in ipairs(values) do
          texts[i] = type(value) == 'number' and string.format('%.17g', value) or value
        end
        return cjson.encode({{texts, {{{offset_names}}}, {name}_BYTES}})"""
    with raw(any_store_url) as client:
        values, found, size = json.loads(client.eval(script, 1, "any", row.tobytes()))
    for field, value in zip(before, values, strict=True):
        assert value == given[field].decode() if isinstance(given[field], bytes) else float(value) == given[field]
    offsets = row.dtype.fields
    assert offsets is not None
    assert found == [offsets[field][1] + 1 for field in before]
    assert found == [struct.place(field, f"V{answer_bytes}") + 1 for field in before]
    assert size == row.itemsize - answer_bytes * list(fields.values()).count("answer")
    assert struct.struct(answer_bytes).size == row.itemsize


async def test_checksums_agree_between_python_and_scripts(store: RedisStore) -> None:
    """Both sides compute the same checksum of any bytes."""
    for data in (b"", b"a", bytes(range(256)), b"\xff" * 5000):
        script = "return string.sub(redis.sha1hex(ARGV[1]), 1, 8)"
        assert await store.command("EVAL", script, 1, "any", data) == digits_of(data) == b"%08x" % check_of(data)
        assert check_of(data[:3], data[3:]) == check_of(data)


def test_versions_and_kinds_are_stable() -> None:
    """Stored data stays valid, as no version, kind or flag changes its number."""
    assert (layout.VERSION, layout.CHECK.size) == (1, 4)
    kinds = (layout.OPEN, layout.FEEDBACK, layout.EXPIRED, layout.PENDING, layout.INACTIVE)
    assert kinds == (0, 1, 2, 3, 4)
    assert (layout.EVIDENCE, layout.ELIGIBLE, layout.HOLDOUT, layout.SIZES_GIVEN) == (1, 2, 4, 8)
