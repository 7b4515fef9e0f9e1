"""Requests whose end two servers may see at different places, with another request hidden after one of them."""

from collections.abc import Iterator

HIDDEN = b"GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n"
SIZE = b"%d" % len(HIDDEN)
CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)
ENCODED = b"Transfer-Encoding: chunked"

ENCODINGS = [
    b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked", b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x", b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: ",
    b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding: chunked\x0b", b"Transfer-Encoding: \x00chunked",
    b" Transfer-Encoding: chunked", b"\tTransfer-Encoding: chunked", b"A: b\r\n Transfer-Encoding: chunked",
    b"A: b\nTransfer-Encoding: chunked", b"A: b\rTransfer-Encoding: chunked", b"Transfer-Encoding\n: chunked",
    b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding:\n chunked",
    b'Transfer-Encoding: "chunked"', b"Transfer-Encoding: chunked;a=b", b"Transfer-Encoding: CHUNKED",
    b"Transfer-Encoding\x00: chunked", b"\x00Transfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nTE: trailers",
    b"Transfer-Encoding: chunk\xc5\xbfed", b"\xefTransfer-Encoding: chunked", b"Transfer-Encoding: chunked ,",
]  # fmt: skip
LENGTHS = [
    b"+%b", b"-%b", b"0x%b", b"%b ,", b"%b, %b", b"%b 0", b"0 %b", b"%b\x00", b"%b.0", b"%be0", b"1_%b", b"%b;a",
    b"99999999999999999999%b", b"\xd9\xa3%b", b'"%b"',
]  # fmt: skip
DOUBLE_LENGTHS = [(SIZE, b"0"), (b"0", SIZE), (SIZE, b"+" + SIZE), (b"0, " + SIZE, SIZE), (SIZE, b"")]
CHUNK_SIZES = [
    b"0x%x", b"+%x", b"-%x", b" %x", b"%x ", b"%x\t", b"%x;a=b", b"%x;a=\"\\r\\n\"", b"%x;\n", b"%x\n", b"%x\r",
    b"1_%x", b"fffffffffffffff%x", b"%x,0", b"%x\x00", b"%x;\x00", b"0%x", b"%x ;",
]  # fmt: skip


def request(headers: bytes, body: bytes, line: bytes = b"POST /given HTTP/1.1") -> bytes:
    """Return a request with these header lines."""
    return b"%b\r\nHost: x\r\n%b\r\n\r\n%b" % (line, headers, body)


def attempts() -> Iterator[tuple[str, bytes]]:
    """Yield attempts with their names. By HTTP's rules each is invalid, or has the hidden request in its body."""
    late = b"0\r\n\r\n" + HIDDEN
    length = b"Content-Length: "
    yield "CL.TE", request(length + b"%d\r\n" % len(late) + ENCODED, late)
    yield "TE.CL", request(length + b"4\r\n" + ENCODED, CHUNK)
    yield "TE.CL in the other order", request(ENCODED + b"\r\n" + length + b"4", CHUNK)
    yield "TE of HTTP/1.0", request(length + b"%d\r\n" % len(late) + ENCODED, late, b"POST /given HTTP/1.0")
    for each in ENCODINGS:
        yield f"{each!r} ends early", request(length + b"%d\r\n" % len(late) + each, late)
        yield f"{each!r} ends late", request(length + b"4\r\n" + each, CHUNK)
        yield f"{each!r} alone", request(each, CHUNK)
    for form in LENGTHS:
        yield f"length {form!r}", request(length + form.replace(b"%b", SIZE), HIDDEN)
    for one, other in DOUBLE_LENGTHS:
        yield f"lengths {one!r} and {other!r}", request(length + one + b"\r\n" + length + other, HIDDEN)
    yield "a folded length", request(b"Content-Length:\r\n " + SIZE, HIDDEN)
    yield "a length behind LF", request(b"A: b\nContent-Length: " + SIZE, HIDDEN)
    yield "a length behind CR", request(b"A: b\rContent-Length: " + SIZE, HIDDEN)
    yield "a length before a colon", request(b"Content-Length : " + SIZE, HIDDEN)
    for form in CHUNK_SIZES:
        size = form % len(HIDDEN)
        yield f"chunk size {size!r}", request(ENCODED, size + b"\r\n" + HIDDEN + b"\r\n0\r\n\r\n")
    yield "chunks without CRLF", request(ENCODED, b"1\r\na0\r\n\r\n" + HIDDEN)
    yield "chunks with LF", request(ENCODED, CHUNK.replace(b"\r\n0\r\n", b"\n0\n"))
    yield "a trailer that is a length", request(ENCODED, CHUNK[:-2] + b"Content-Length: 5\r\n\r\n")
    yield "a trailer that is an encoding", request(ENCODED, CHUNK[:-2] + ENCODED + b"\r\n\r\n")
    for protocol in (b"h2c", b"websocket"):
        head = b"Connection: Upgrade\r\nUpgrade: %b\r\n" % protocol
        yield f"{protocol!r} with a length", request(head + length + SIZE, HIDDEN)
        yield f"{protocol!r} with chunks", request(head + ENCODED, CHUNK)
        yield f"{protocol!r} of GET", request(head + length + SIZE, HIDDEN, b"GET /given HTTP/1.1")
    for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS"):
        yield f"{method!r} with a body", request(length + SIZE, HIDDEN, method + b" /given HTTP/1.1")
    for line in (b"POST /given HTTP/1.1 HTTP/1.1", b"POST  /given HTTP/1.1", b"POST /gi ven HTTP/1.1", b"POST /given",
                 b"POST /given HTTP/2.0", b"POST /given HTTP/1.01", b"POST\t/given\tHTTP/1.1",
                 b"PO\x00ST /given HTTP/1.1", b"\x00POST /given HTTP/1.1",
                 b"POST http://y/given HTTP/1.1"):  # fmt: skip
        yield f"line {line!r}", request(length + SIZE, HIDDEN, line)
    yield "Connection names the length", request(b"Connection: Content-Length\r\n" + length + SIZE, HIDDEN)
    yield "expects", request(b"Expect: 100-continue\r\n" + length + SIZE, HIDDEN)
