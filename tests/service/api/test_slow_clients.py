"""The laws of slow or silent clients over real sockets: they affect nobody else."""

import asyncio
import contextlib
import json

import pytest

from tests.service.api.attacked import BODY, GRACE, HEAD, Attacked, X, connected, counted, latencies, rest

# --- clients without a key


@pytest.mark.parametrize("signed", [True, False], ids=["plausible", "unsigned"])
async def test_half_sent_webhooks_do_not_delay_others(patient: Attacked, signed: bool) -> None:
    """While 1,100 webhooks wait for their bodies, predictions with a key are nearly as fast as before."""
    head = patient.head("/webhooks/feedback")
    if not signed:
        head = head.replace(b"webhook-signature", b"x-signature")
    async with contextlib.AsyncExitStack() as attack, patient.client() as client:
        await latencies(client, 100)
        quiet = (await latencies(client, 200))[-3]
        for _ in range(1100):
            raw = await attack.enter_async_context(connected(patient))
            await asyncio.get_running_loop().sock_sendall(raw, head + b'{"prediction_id":')
        under_attack = (await latencies(client, 200))[-3]
        assert under_attack <= max(5.0 * quiet, 0.1)
        headers = (
            {"webhook-id": "m"}
            if not signed
            else dict(line.split(": ") for line in head.decode().splitlines() if line.startswith("webhook-"))
        )
        refused = await client.post("/webhooks/feedback", content=b"{}", headers=headers)
        assert refused.status_code == 401  # it got a place, and its body does not match the signature
        status, lost = ("408", 1001) if signed else ("401", 1101)  # each place went to a later webhook
        for _ in range(200):  # the worker may accept some connections later
            found = await counted(client, "/webhooks/feedback")
            if found.get(status, 0) >= lost:
                break
            await asyncio.sleep(0.05)
        assert found[status] >= lost  # and more once the rest were too slow
        assert found["401"] == (1 if signed else lost)


# --- bodies


@pytest.mark.parametrize("length", [1000, None], ids=["declared", "in-chunks"])
@pytest.mark.parametrize("path", ["/predict", "/feedback/batch", "/models", "/webhooks/feedback"])
async def test_a_dripping_body_is_refused_in_seconds(impatient: Attacked, path: str, length: int | None) -> None:
    """A body that stalls, or drips a few bytes per second, gets 408 soon after its grace period."""
    for drip in (b"", b"{" if length else b"1\r\n{\r\n"):
        async with connected(impatient) as raw, impatient.client() as client:
            before = (await counted(client, path)).get("408", 0)
            await asyncio.get_running_loop().sock_sendall(raw, impatient.head(path, length=length))
            answer, seconds = await rest(raw, drip)
            assert (await counted(client, path))["408"] == before + 1
        assert GRACE * 0.9 <= seconds < BODY
        if answer or not drip:  # a client still sending at the close may miss the answer
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"connection: close" in answer.lower()
            assert b"urn:wager:problem:slow-body" in answer


async def test_a_body_above_the_slowest_rate_is_accepted(impatient: Attacked) -> None:
    """A body faster than the slowest rate may exceed the grace period, but not the timeout."""
    body = json.dumps({"model": "m", "context": X}).encode().ljust(3000)
    async with connected(impatient) as raw:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(raw, impatient.head("/predict", "connection: close", length=len(body)))
        for start in range(0, len(body), 300):
            await loop.sock_sendall(raw, body[start : start + 300])
            await asyncio.sleep(0.15)
        answer, _ = await rest(raw)
    assert answer.startswith(b"HTTP/1.1 200 ")
    async with connected(impatient) as raw:
        await asyncio.get_running_loop().sock_sendall(raw, impatient.head("/predict", length=100_000))
        answer, seconds = await rest(raw, b" " * 300)
    assert answer[:13] in {b"HTTP/1.1 408 ", b""}
    assert BODY * 0.99 <= seconds < BODY + 2.0


async def test_the_rest_of_a_refused_body_has_a_deadline(impatient: Attacked) -> None:
    """After an early refusal the connection closes by the end of the body's timeout, even if the client drips."""
    head = impatient.head("/predict").replace(b"Bearer wk_", b"Bearer no_")
    for drip in (b"", b"{"):
        async with connected(impatient) as raw:
            await asyncio.get_running_loop().sock_sendall(raw, head + b"{")
            answer, seconds = await rest(raw, drip)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert seconds < BODY + 2.0


# --- heads


HEADS: dict[str, tuple[bytes, bytes, bytes]] = {  # sent first, sent as drip, start of the answer
    "nothing": (b"", b"", b""),
    "line ends": (b"", b"\r\n", b"HTTP/1.1 408 "),
    "half a line": (b"GET /li", b"", b"HTTP/1.1 408 "),
    "half a head": (b"GET /livez HTTP/1.1\r\nhost: x\r\n", b"", b"HTTP/1.1 408 "),
    "a head by the byte": (b"GET /livez HTTP/1.1\r\nhost: x\r\nx: ", b"y", b"HTTP/1.1 408 "),
    "an endless header": (b"GET /livez HTTP/1.1\r\nhost: x\r\nx: ", b"y" * 20_000, b"HTTP/1.1 431 "),
    "an endless path": (b"GET /", b"y" * 20_000, b"HTTP/1.1 431 "),
    "endless headers": (b"GET /livez HTTP/1.1\r\n", b"x: y\r\n" * 4_000, b"HTTP/1.1 431 "),
}


@pytest.mark.parametrize("second", [False, True], ids=["first", "after-another"])
@pytest.mark.parametrize("case", HEADS)
async def test_an_unfinished_head_is_given_up(impatient: Attacked, case: str, second: bool) -> None:
    """A head that does not end is given up, on a new connection and on a used one."""
    first, drip, answered = HEADS[case]
    if second and not answered:
        pytest.skip("uvicorn's time for idle connections, more than a minute")
    async with connected(impatient) as raw:
        loop = asyncio.get_running_loop()
        if second:
            await loop.sock_sendall(raw, b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
            seen = b""
            while b"alive" not in seen:
                seen += await loop.sock_recv(raw, 65_536)
        await loop.sock_sendall(raw, first)
        answer, seconds = await rest(raw, drip)
    assert answer[:13] == answered or (drip and not answer)  # a client still sending may miss the answer
    assert seconds < HEAD + 2.0


async def test_pipelined_requests_are_answered(impatient: Attacked) -> None:
    """Pipelined requests, the last one in pieces, are all answered, in order."""
    request = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
    async with connected(impatient) as raw:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(raw, request * 5 + request[:12])
        await asyncio.sleep(0.3)
        await loop.sock_sendall(raw, request[12:-2] + b"connection: close\r\n\r\n")
        answer, seconds = await rest(raw)
    assert answer.count(b"HTTP/1.1 200 ") == 6
    assert seconds < HEAD
