"""A strategy of damaged bytes: intact ones with parts cut, repeated, flipped, or replaced by awkward values."""

from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_TOKENS = [
    b"\x00", b"\xff", b"\x00" * 8, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00\x00\x00\xf8\x7f",
    b"\x00\x00\x00\x00\x00\x00\xf0\x7f", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"\\", b'"', b"{",
    b"}", b"[", b"]", b":", b",", b"\n", b"\r", b"null", b"true", b"NaN", b"-Infinity", b"0", b"1e400", b"1e-400",
    b"9" * 400, b"{}", b"[]", b'""', b"[" * 100, b"9999-12-31T23:59:59+00:00",
]  # fmt: skip

FUZZ = settings(
    deadline=None, derandomize=True, max_examples=100, database=None, suppress_health_check=list(HealthCheck)
)


@st.composite
def damaged(draw: st.DrawFn, intact: Sequence[bytes]) -> bytes:
    """Draw one of the intact inputs, with up to four parts changed."""
    data = draw(st.sampled_from(intact))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.sampled_from([0, 0, 1, 1, 2, 4, 8, 64, len(data)])))
        new = draw(st.sampled_from(_TOKENS) | st.binary(max_size=8) | st.just(data[start:stop] * 2))
        data = data[:start] + new + data[stop:]
    return data
