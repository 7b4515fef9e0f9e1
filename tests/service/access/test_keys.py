"""The laws of API keys: records hold no secrets, lookups are cached, and only the exact key is accepted."""

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.access.key_admin import KeyAdmin
from service.access.keys import Gatekeeper, KeyRecord, Names
from service.errors import InvalidInputError, NotFoundError, UnauthenticatedError
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import MemoryTable, key_admin_at, noise
from tests.service.workers import START, Clock

FUZZ = settings(
    deadline=None, derandomize=True, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def clock() -> Clock:
    """Return the clock shared by admin and gatekeeper."""
    return Clock()


@pytest.fixture
def table() -> MemoryTable:
    """Return an empty table."""
    return MemoryTable()


@pytest.fixture
def admin(table: MemoryTable, clock: Clock) -> KeyAdmin:
    """Return a key admin for the table."""
    return key_admin_at(table, clock)


@pytest.fixture
def gatekeeper(table: MemoryTable, clock: Clock) -> Gatekeeper:
    """Return a gatekeeper that caches lookups for five seconds."""
    return Gatekeeper(table, clock, 5.0)


async def admits(gatekeeper: Gatekeeper, key: str) -> bool:
    """Check whether the gatekeeper accepts a key."""
    try:
        await gatekeeper.identify(key)
    except UnauthenticatedError:
        return False
    return True


async def test_a_record_does_not_contain_the_secret(admin: KeyAdmin, table: MemoryTable) -> None:
    """The record has only a digest of the secret, and its repr does not show the digest."""
    issued = await admin.create("x", ["read"])
    secret = issued.text.rpartition("_")[2]
    (stored,) = table.records.values()
    assert len(bytes.fromhex(secret)) == 32
    assert secret.encode() not in stored
    record = KeyRecord.model_validate_json(stored)
    assert record.digest not in repr(record)


async def test_lookups_are_cached(admin: KeyAdmin, table: MemoryTable, gatekeeper: Gatekeeper, clock: Clock) -> None:
    """A valid and an unknown key are each looked up at most once per five seconds."""
    good, unknown = (await admin.create("x", ["read"])).text, f"wk_{'0' * 12}_{'0' * 64}"
    for moment, asked in [(0.0, 2), (4.9, 2), (5.0, 4), (5.1, 4), (-100.0, 6)]:
        clock.now = START + moment
        assert (await admits(gatekeeper, good), await admits(gatekeeper, unknown)) == (True, False)
        assert table.asked == asked
    for _ in range(3):
        assert not await admits(gatekeeper, "wk_malformed")
    assert table.asked == 6


async def test_an_altered_key_is_refused(admin: KeyAdmin, gatekeeper: Gatekeeper) -> None:
    """The id of a valid key with another secret is refused, also right after the key itself was accepted."""
    good = (await admin.create("x", ["read"])).text
    assert await admits(gatekeeper, good)
    for place in (16, 40, len(good) - 1):
        other = "0" if good[place] != "0" else "1"
        assert not await admits(gatekeeper, good[:place] + other + good[place + 1 :])


async def test_a_revocation_takes_effect_within_the_cache_time(
    admin: KeyAdmin, gatekeeper: Gatekeeper, clock: Clock
) -> None:
    """A revoked key is accepted for at most five more seconds; an expired key is refused immediately."""
    revoked, expiring = await admin.create("x", ["read"]), await admin.create("x", ["read"], expires_in=2.0)
    assert await admits(gatekeeper, revoked.text)
    assert await admits(gatekeeper, expiring.text)
    await admin.revoke(revoked.id)
    clock.now += 2.0
    assert (await admits(gatekeeper, revoked.text), await admits(gatekeeper, expiring.text)) == (True, False)
    clock.now += 3.0
    assert not await admits(gatekeeper, revoked.text)


async def test_the_cache_is_bounded(gatekeeper: Gatekeeper) -> None:
    """The number of cached ids is bounded, however many ids are tried."""
    for number in range(5000):
        assert not await admits(gatekeeper, f"wk_{number:012x}_{'0' * 64}")
    assert len(gatekeeper._cache) == 4096


async def test_both_keys_work_during_a_rotation(admin: KeyAdmin, gatekeeper: Gatekeeper, clock: Clock) -> None:
    """Both keys work during the overlap, then only the new one, which has the same rights and the same lifetime."""
    old = await admin.create("shop", ["read", "predict"], "shop-*", "5/minute", 1000.0)
    clock.now += 100.0
    new = await admin.rotate(old.id, 60.0)
    assert (await admits(gatekeeper, old.text), await admits(gatekeeper, new.text)) == (True, True)
    records = await admin.all()
    before, after = records[old.id], records[new.id]
    assert before is not None
    assert after is not None
    assert before.expires_at == START + 160.0
    assert after.expires_at == START + 1100.0
    assert (after.name, after.scopes, after.models, after.limit) == ("shop", ["read", "predict"], "shop-*", "5/minute")
    assert after.digest != before.digest
    clock.now += 60.0
    assert (await admits(gatekeeper, old.text), await admits(gatekeeper, new.text)) == (False, True)


async def test_rotation_never_extends_a_key(admin: KeyAdmin) -> None:
    """A key that expires before the end of the overlap keeps its expiry."""
    old = await admin.create("x", ["read"], expires_in=10.0)
    await admin.rotate(old.id, 60.0)
    record = (await admin.all())[old.id]
    assert record is not None
    assert record.expires_at == START + 10.0


async def test_a_key_revoked_while_it_is_rotated_stays_revoked(clock: Clock) -> None:
    """If a key is revoked between the two writes of its rotation, neither the old nor the new key remains."""

    class Racing(MemoryTable):
        async def replace(self, key_id: str, record: bytes) -> bool:
            await self.remove(key_id)
            return await super().replace(key_id, record)

    racing = Racing()
    admin = key_admin_at(racing, clock)
    old = await admin.create("x", ["read"])
    with pytest.raises(NotFoundError):
        await admin.rotate(old.id, 60.0)
    assert racing.records == {}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("scopes", []),
        ("scopes", ["write"]),
        ("scopes", ["read", "read"]),
        ("models", "shop/*"),
        ("models", ""),
        ("models", "[a-z]*"),
        ("limit", "0/second"),
        ("limit", "many"),
        ("limit", "1/second; 5/hour"),
        ("expires_in", float("inf")),
        ("expires_in", float("nan")),
    ],
)
async def test_an_invalid_key_is_not_created(admin: KeyAdmin, table: MemoryTable, field: str, value: Any) -> None:
    """An invalid value is refused, and nothing is stored."""
    fields: dict[str, Any] = {"name": "x", "scopes": ["read"], field: value}
    with pytest.raises(InvalidInputError):
        await admin.create(**fields)
    assert table.records == {}


async def test_unknown_ids_are_refused(admin: KeyAdmin) -> None:
    """Rotating or revoking an unknown key raises `NotFoundError`."""
    with pytest.raises(NotFoundError):
        await admin.rotate("0" * 12, 1.0)
    with pytest.raises(NotFoundError):
        await admin.revoke("0" * 12)


async def test_the_store_keeps_the_records(any_store_url: str) -> None:
    """The table in the store behaves like the one in memory: add, replace and remove succeed only when they should."""
    store = RedisStore(any_store_url, timeout=10.0)
    for table in (ApiKeyTable(store.command), MemoryTable()):
        key_id = noise(6).hex()
        assert await table.get(key_id) is None
        assert not await table.replace(key_id, b"0")
        assert await table.get(key_id) is None
        assert await table.add(key_id, b"1")
        assert not await table.add(key_id, b"2")
        assert await table.get(key_id) == (await table.all())[key_id] == b"1"
        assert await table.replace(key_id, b"\xff\x00")
        assert await table.get(key_id) == b"\xff\x00"
        assert await table.remove(key_id)
        assert not await table.remove(key_id)
    await store.close()


NAME = st.text("ab-.", min_size=1, max_size=6)


@FUZZ
@given(st.text("ab*-.", min_size=1, max_size=5), NAME, NAME)
def test_a_glob_matches_letters_and_stars(glob: str, name: str, other: str) -> None:
    """A glob matches the names that its parts and stars describe, and its bounds contain all of them."""

    def matches(glob: str, name: str) -> bool:
        head, star, rest = glob.partition("*")
        if not star:
            return glob == name
        return name.startswith(head) and any(matches(rest, name[i:]) for i in range(len(head), len(name) + 1))

    names = Names(glob)
    assert (name in names) == matches(glob, name)
    if name in names:
        assert name > names.before
        assert not (names.ended_by(other) and other < name)


def test_a_glob_with_many_stars_is_fast() -> None:
    """A glob with many stars is matched without exponential backtracking."""
    assert "a" * 64 not in Names("*a" * 31 + "*b")


GOOD = noise(38).hex()
TEXT = f"wk_{GOOD[:12]}_{GOOD[12:]}"


async def _record() -> bytes:
    table = MemoryTable()
    await KeyAdmin(table, Clock(), lambda _: bytes.fromhex(GOOD)).create("x", ["read"], "shop-*", "5/second", 60.0)
    return table.records[GOOD[:12]]


@FUZZ
@given(data=st.data())
def test_a_damaged_record_admits_no_other_key(data: st.DataObject, caplog: pytest.LogCaptureFixture) -> None:
    """A record with random damage is either refused as unreadable, or valid with the same digest."""
    caplog.set_level(logging.CRITICAL)

    async def check() -> None:
        stored = await _record()
        start = data.draw(st.integers(0, len(stored)))
        stop = data.draw(st.integers(start, min(len(stored), start + 8)))
        damaged = stored[:start] + data.draw(st.binary(max_size=8)) + stored[stop:]
        table = MemoryTable()
        table.records[GOOD[:12]] = damaged
        gatekeeper = Gatekeeper(table, Clock(), 5.0)
        if await admits(gatekeeper, TEXT):
            assert json.loads(damaged)["digest"] == json.loads(stored)["digest"]
            KeyRecord.model_validate_json(damaged)

    asyncio.run(check())


@FUZZ
@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")) | st.just(TEXT + "\n"))
def test_any_other_text_is_refused(text: str) -> None:
    """Any other text is refused as unauthenticated, without another error."""
    assert not asyncio.run(admits(Gatekeeper(MemoryTable(), Clock(), 5.0), text))
