"""The laws of keys in time: rotation has no gap, revocation a bounded delay, and expiry is a moment of the clock."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.access.keys import Caller, Gatekeeper
from service.errors import StoreUnavailableError, UnauthenticatedError
from tests.service.keyed import MemoryTable, key_admin_at
from tests.service.workers import START, Clock

CACHE = 5.0
EXAMPLES = settings(deadline=None, derandomize=True, max_examples=150)
SECONDS = st.integers(0, 40).map(lambda quarters: quarters / 4)


class Table(MemoryTable):
    """A table in a network: a lookup takes time on the clock, and it may be unreachable."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.is_down, self.reply_seconds = False, 0.0

    async def get(self, key_id: str) -> bytes | None:
        """Read the record now, and return it after the time that a reply takes."""
        if self.is_down:
            raise StoreUnavailableError("the store does not answer")
        record = await super().get(key_id)
        self._clock.now += self.reply_seconds
        return record


async def verdict(worker: Gatekeeper, key: str) -> str:
    """Return what a worker says to a key."""
    try:
        assert isinstance(await worker.identify(key), Caller)
    except UnauthenticatedError:
        return "refused"
    except StoreUnavailableError:
        return "unavailable"
    return "accepted"


@EXAMPLES
@given(
    seen=st.lists(SECONDS, min_size=3, max_size=3),
    overlap=SECONDS,
    asked=st.lists(SECONDS, min_size=1, max_size=12).map(sorted),
)
def test_a_rotation_has_no_gap(seen: list[float], overlap: float, asked: list[float]) -> None:
    """On every worker, whenever it saw the old key last: the new key works at once, the old one during the overlap.

    The old key ends with the overlap, or when the worker's cache does, if that is later.
    """

    async def check() -> None:
        clock = Clock()
        table = Table(clock)
        admin, workers = key_admin_at(table, clock), [Gatekeeper(table, clock, CACHE) for _ in seen]
        old = await admin.create("x", ["read"])
        for moment, worker in sorted(zip(seen, workers, strict=True), key=lambda each: each[0]):
            clock.now = START + moment
            assert await verdict(worker, old.text) == "accepted"
        clock.now = rotated = START + max(seen)
        new = await admin.rotate(old.id, overlap)
        for moment in asked:
            clock.now = rotated + moment
            for worker in workers:
                old_says, new_says = await verdict(worker, old.text), await verdict(worker, new.text)
                assert new_says == "accepted"
                if moment < overlap:
                    assert old_says == "accepted"
                if moment >= max(overlap, CACHE):
                    assert old_says == "refused"

    asyncio.run(check())


@EXAMPLES
@given(
    seen=st.lists(SECONDS, min_size=3, max_size=3),
    reply=st.sampled_from([0.0, 0.5, 3.0, 7.0]),
    down=st.none() | SECONDS,
    asked=st.lists(SECONDS, min_size=1, max_size=12).map(sorted),
)
def test_a_revoked_key_stops_within_the_delay(
    seen: list[float], reply: float, down: float | None, asked: list[float]
) -> None:
    """On every worker, however slow the store, and also if it is unreachable from some moment on.

    Without the store a worker accepts keys for the rest of its cache, and then answers 503.
    """

    async def check() -> None:
        clock = Clock()
        table = Table(clock)
        admin, workers = key_admin_at(table, clock), [Gatekeeper(table, clock, CACHE) for _ in seen]
        key = await admin.create("x", ["read"])
        table.reply_seconds = reply
        for moment, worker in sorted(zip(seen, workers, strict=True), key=lambda each: each[0]):
            clock.now = max(clock.now, START + moment)
            await verdict(worker, key.text)
        revoked = clock.now - reply  # while the last lookup was on its way: it has read the record
        await admin.revoke(key.id)
        for moment in asked:
            clock.now = max(clock.now, revoked + moment)
            table.is_down = down is not None and clock.now >= revoked + down
            for worker in workers:
                delay = clock.now - revoked
                said = await verdict(worker, key.text)
                assert said != "accepted" or delay < CACHE
                assert said != "unavailable" or table.is_down

    asyncio.run(check())


@EXAMPLES
@given(life=SECONDS.filter(bool), seen=st.none() | SECONDS, moment=SECONDS)
def test_a_key_is_valid_until_its_expiry(life: float, seen: float | None, moment: float) -> None:
    """A key works before the moment of its expiry and not from it on, whether or not the worker has it in its cache."""

    async def check() -> None:
        clock = Clock()
        table = Table(clock)
        worker = Gatekeeper(table, clock, CACHE)
        key = await key_admin_at(table, clock).create("x", ["read"], expires_in=life)
        for at in [moment] if seen is None else sorted((seen, moment)):
            clock.now = START + at
            assert await verdict(worker, key.text) == ("accepted" if at < life else "refused")

    asyncio.run(check())


@pytest.mark.parametrize("back", [1.0, 3600.0, 1e9])
async def test_a_clock_that_is_set_back_does_not_prolong_a_revoked_key(back: float) -> None:
    """A record in the cache counts for no longer than the cache, by either clock."""
    clock = Clock()
    table = Table(clock)
    admin, worker = key_admin_at(table, clock), Gatekeeper(table, clock, CACHE)
    key = await admin.create("x", ["read"])
    assert await verdict(worker, key.text) == "accepted"
    await admin.revoke(key.id)
    clock.now -= back
    assert await verdict(worker, key.text) == "refused"
