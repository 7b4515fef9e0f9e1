"""The library `struct` of Redis' Lua, for the formats that the scripts use: little-endian, without padding."""

import re
import struct
from functools import lru_cache

_CODES = {"B": "B", "b": "b", "d": "d", "I2": "H", "I4": "I", "I8": "Q", "i2": "h", "i4": "i", "i8": "q"}
_CODE = re.compile(r"[a-zA-Z]\d*")


@lru_cache(maxsize=256)
def _compiled(form: bytes) -> tuple[struct.Struct, tuple[bool, ...]]:
    """Return the format, and which of its values are floats."""
    codes = _CODE.findall(form.decode().removeprefix("<").replace(" ", ""))
    return struct.Struct("<" + "".join(map(_translated, codes))), tuple(code == "d" for code in codes)


def _translated(code: str) -> str:
    return f"{code[1:]}s" if code[0] == "c" else _CODES[code]


def pack(form: bytes, *values: float) -> bytes:
    """See `struct.pack` of Redis' Lua."""
    packer, floats = _compiled(form)
    pairs = zip(values, floats, strict=True)
    return packer.pack(*[float(value) if is_float else int(value) for value, is_float in pairs])


def unpack(form: bytes, data: bytes, position: float = 1) -> tuple[float | bytes, ...]:
    """See `struct.unpack` of Redis' Lua: the values, and the position after them.

    Raises:
        ValueError: if the data is too short.
    """
    reader, start = _compiled(form)[0], int(position) - 1
    if start < 0 or start + reader.size > len(data):
        raise ValueError("data string too short")
    return (*reader.unpack_from(data, start), start + reader.size + 1)
