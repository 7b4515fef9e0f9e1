"""The laws of API keys: records hold no secrets, only exact keys are accepted, in their time; others are throttled."""

import asyncio
import itertools
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ByteSize

from service.access.key_admin import KeyAdmin
from service.access.keys import (
    MOST_WRONG_KEYS,
    WINDOW_SECONDS,
    Caller,
    Gatekeeper,
    KeyBudgets,
    KeyRecord,
    Names,
    WrongKeys,
)
from service.errors import InvalidInputError, NotFoundError, StoreUnavailableError, UnauthenticatedError
from service.store.access_tables import ApiKeyTable, KeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import MemoryTable, bearer, key_admin_at, noise
from tests.service.workers import START, Clock, worker

FUZZ = settings(
    deadline=None, derandomize=True, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table() -> MemoryTable:
    return MemoryTable()


@pytest.fixture
def admin(table: MemoryTable, clock: Clock) -> KeyAdmin:
    return key_admin_at(table, clock)


@pytest.fixture
def gatekeeper(table: MemoryTable, clock: Clock) -> Gatekeeper:
    return Gatekeeper(table, clock, 5.0)


async def admits(gatekeeper: Gatekeeper, key: str) -> bool:
    try:
        await gatekeeper.identify(key)
    except UnauthenticatedError:
        return False
    return True


async def test_a_record_does_not_contain_the_secret(admin: KeyAdmin, table: MemoryTable) -> None:
    issued = await admin.create("x", ["read"])
    secret = issued.text.rpartition("_")[2]
    (stored,) = table.records.values()
    assert len(bytes.fromhex(secret)) == 32
    assert secret.encode() not in stored
    record = KeyRecord.model_validate_json(stored)
    assert record.digest not in repr(record)


async def test_lookups_of_keys_that_exist_are_cached(
    admin: KeyAdmin, table: MemoryTable, gatekeeper: Gatekeeper, clock: Clock
) -> None:
    good, unknown = (await admin.create("x", ["read"])).text, f"wk_{'0' * 12}_{'0' * 64}"
    for moment, asked in [(0.0, 2), (4.9, 3), (5.0, 5), (5.1, 6), (-100.0, 8)]:
        clock.now = START + moment
        assert (await admits(gatekeeper, good), await admits(gatekeeper, unknown)) == (True, False)
        assert table.asked == asked
    for _ in range(3):
        assert not await admits(gatekeeper, "wk_malformed")
    assert table.asked == 8


async def test_an_altered_key_is_refused(admin: KeyAdmin, gatekeeper: Gatekeeper) -> None:
    good = (await admin.create("x", ["read"])).text
    assert await admits(gatekeeper, good)
    for place in (16, 40, len(good) - 1):
        other = "0" if good[place] != "0" else "1"
        assert not await admits(gatekeeper, good[:place] + other + good[place + 1 :])


async def test_a_revocation_takes_effect_within_the_cache_time(
    admin: KeyAdmin, gatekeeper: Gatekeeper, clock: Clock
) -> None:
    revoked, expiring = await admin.create("x", ["read"]), await admin.create("x", ["read"], expires_in=2.0)
    assert await admits(gatekeeper, revoked.text)
    assert await admits(gatekeeper, expiring.text)
    await admin.revoke(revoked.id)
    clock.now += 2.0
    assert (await admits(gatekeeper, revoked.text), await admits(gatekeeper, expiring.text)) == (True, False)
    clock.now += 3.0
    assert not await admits(gatekeeper, revoked.text)


async def test_the_cache_is_bounded(admin: KeyAdmin, table: MemoryTable, gatekeeper: Gatekeeper) -> None:
    issued = await admin.create("x", ["read"])
    for number in range(5000):
        table.records[f"{number:012x}"] = table.records[issued.id]
        assert not await admits(gatekeeper, f"wk_{number:012x}_{'0' * 64}")
    assert len(gatekeeper._cache) == 4096


async def test_both_keys_work_during_a_rotation(admin: KeyAdmin, gatekeeper: Gatekeeper, clock: Clock) -> None:
    old = await admin.create(
        "shop", ["read", "predict"], "shop-*", 1000.0, {"requests": "5/minute", "open_bytes": "1KiB"}
    )
    clock.now += 100.0
    new = await admin.rotate(old.id, 60.0)
    assert (await admits(gatekeeper, old.text), await admits(gatekeeper, new.text)) == (True, True)
    records = await admin.all()
    before, after = records[old.id], records[new.id]
    assert before is not None
    assert after is not None
    assert before.expires_at == START + 160.0
    assert after.expires_at == START + 1100.0
    assert (after.name, after.scopes, after.models) == ("shop", ["read", "predict"], "shop-*")
    assert after.budgets == KeyBudgets(requests="5/minute", open_bytes=ByteSize(1024))
    assert after.digest != before.digest
    clock.now += 60.0
    assert (await admits(gatekeeper, old.text), await admits(gatekeeper, new.text)) == (False, True)


async def test_rotation_never_extends_a_key(admin: KeyAdmin) -> None:
    old = await admin.create("x", ["read"], expires_in=10.0)
    await admin.rotate(old.id, 60.0)
    record = (await admin.all())[old.id]
    assert record is not None
    assert record.expires_at == START + 10.0


async def test_a_key_revoked_while_it_is_rotated_stays_revoked(clock: Clock) -> None:
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


@pytest.mark.parametrize(("field", "value"), [
    ("name", ""), ("scopes", []), ("scopes", ["write"]), ("scopes", ["read", "read"]), ("models", "shop/*"),
    ("models", ""), ("models", "[a-z]*"), ("budgets", {"requests": "0/second"}),
    ("budgets", {"requests": "many"}), ("budgets", {"requests": "1/second; 5/hour"}), ("budgets", {"models": 0}),
    ("budgets", {"open_bytes": 0}), ("budgets", {"open_bytes": "much"}), ("budgets", {"compute_seconds": 0.0009}),
    ("budgets", {"compute_seconds": float("nan")}), ("budgets", {"patience": 1}),
    ("expires_in", float("inf")), ("expires_in", float("nan")),
])  # fmt: skip
async def test_an_invalid_key_is_not_created(admin: KeyAdmin, table: MemoryTable, field: str, value: Any) -> None:
    fields: dict[str, Any] = {"name": "x", "scopes": ["read"], field: value}
    with pytest.raises(InvalidInputError):
        await admin.create(**fields)
    assert table.records == {}


async def test_the_store_keeps_the_records(any_store_url: str) -> None:
    store = RedisStore(any_store_url, timeout=10.0)
    names = [noise(6).hex(), "a}:model", "*", "a\r\nSET x 1", ""]  # none means anything to the store
    tables: tuple[KeyTable, ...] = (ApiKeyTable(store.command), MemoryTable())
    for table, key_id in itertools.product(tables, names):
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
    assert "a" * 64 not in Names("*a" * 31 + "*b")


GOOD = noise(38).hex()
TEXT = f"wk_{GOOD[:12]}_{GOOD[12:]}"


@FUZZ
@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")) | st.just(TEXT + "\n"))
def test_any_other_text_is_refused(text: str) -> None:
    assert not asyncio.run(admits(Gatekeeper(MemoryTable(), Clock(), 5.0), text))


CACHE = 5.0
EXAMPLES = settings(deadline=None, derandomize=True, max_examples=150)
SECONDS = st.integers(0, 40).map(lambda quarters: quarters / 4)


class Table(MemoryTable):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.is_down, self.reply_seconds = False, 0.0

    async def get(self, key_id: str) -> bytes | None:
        if self.is_down:
            raise StoreUnavailableError("the store does not answer")
        record = await super().get(key_id)
        self._clock.now += self.reply_seconds
        return record


async def verdict(keeper: Gatekeeper, key: str) -> str:
    try:
        assert isinstance(await keeper.identify(key), Caller)
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
    async def check() -> None:
        clock = Clock()
        table = Table(clock)
        admin, keepers = key_admin_at(table, clock), [Gatekeeper(table, clock, CACHE) for _ in seen]
        old = await admin.create("x", ["read"])
        for moment, keeper in sorted(zip(seen, keepers, strict=True), key=lambda each: each[0]):
            clock.now = START + moment
            assert await verdict(keeper, old.text) == "accepted"
        clock.now = rotated = START + max(seen)
        new = await admin.rotate(old.id, overlap)
        for moment in asked:
            clock.now = rotated + moment
            for keeper in keepers:
                old_says, new_says = await verdict(keeper, old.text), await verdict(keeper, new.text)
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
    async def check() -> None:
        clock = Clock()
        table = Table(clock)
        admin, keepers = key_admin_at(table, clock), [Gatekeeper(table, clock, CACHE) for _ in seen]
        key = await admin.create("x", ["read"])
        table.reply_seconds = reply
        for moment, keeper in sorted(zip(seen, keepers, strict=True), key=lambda each: each[0]):
            clock.now = max(clock.now, START + moment)
            await verdict(keeper, key.text)
        revoked = clock.now - reply  # while the last lookup was on its way: it has read the record
        await admin.revoke(key.id)
        for moment in asked:
            clock.now = max(clock.now, revoked + moment)
            table.is_down = down is not None and clock.now >= revoked + down
            for keeper in keepers:
                delay = clock.now - revoked
                said = await verdict(keeper, key.text)
                assert said != "accepted" or delay < CACHE
                assert said != "unavailable" or table.is_down

    asyncio.run(check())


@EXAMPLES
@given(life=SECONDS.filter(bool), seen=st.none() | SECONDS, moment=SECONDS)
def test_a_key_is_valid_until_its_expiry(life: float, seen: float | None, moment: float) -> None:
    async def check() -> None:
        clock = Clock()
        table = Table(clock)
        keeper = Gatekeeper(table, clock, CACHE)
        key = await key_admin_at(table, clock).create("x", ["read"], expires_in=life)
        for at in [moment] if seen is None else sorted((seen, moment)):
            clock.now = START + at
            assert await verdict(keeper, key.text) == ("accepted" if at < life else "refused")

    asyncio.run(check())


@pytest.mark.parametrize("back", [1.0, 3600.0, 1e9])
async def test_a_clock_that_is_set_back_does_not_prolong_a_revoked_key(back: float) -> None:
    clock = Clock()
    table = Table(clock)
    admin, keeper = key_admin_at(table, clock), Gatekeeper(table, clock, CACHE)
    key = await admin.create("x", ["read"])
    assert await verdict(keeper, key.text) == "accepted"
    await admin.revoke(key.id)
    clock.now -= back
    assert await verdict(keeper, key.text) == "refused"


WRONG = f"wk_{'0' * 12}_{'0' * 64}"


def counted(keys: WrongKeys, address: str, n: int) -> list[int | None]:
    return [keys.count(address) for _ in range(n)]


def test_wrong_keys_over_the_limit_wait_for_the_next_window() -> None:
    clock = Clock(100.0)
    keys = WrongKeys(clock)
    assert counted(keys, "192.0.2.1", MOST_WRONG_KEYS + 2) == [None] * MOST_WRONG_KEYS + [60, 60]
    assert counted(keys, "192.0.2.2", MOST_WRONG_KEYS + 1) == [None] * MOST_WRONG_KEYS + [60]
    clock.now += WINDOW_SECONDS - 0.5
    assert keys.count("192.0.2.1") == 1
    clock.now += 0.5
    assert counted(keys, "192.0.2.1", MOST_WRONG_KEYS + 1) == [None] * MOST_WRONG_KEYS + [60]


@pytest.mark.parametrize(("one", "other", "same"), [
    ("2001:db8::1", "2001:db8::ffff:1", True), ("2001:db8::1", "2001:db8:0:1::1", False),
    ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False), ("192.0.2.1", "::ffff:192.0.2.1", True), ("", "", True),
    ("/run/socket", "/run/other", False),
])  # fmt: skip
def test_addresses_of_one_network_are_one_source(one: str, other: str, same: bool) -> None:
    keys = WrongKeys(Clock())
    assert counted(keys, one, MOST_WRONG_KEYS)[-1] is None
    assert (keys.count(other) is not None) == same


def test_the_number_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.access.keys._MOST_ADDRESSES", 3)
    keys = WrongKeys(Clock())
    for address in ("a", "b", "c"):
        counted(keys, address, MOST_WRONG_KEYS)
    assert keys.count("a") is not None
    keys.count("d")
    assert len(keys._windows) == 3
    assert keys.count("a") is not None
    assert keys.count("b") is None


async def test_a_throttled_address_can_use_valid_keys(store_url: str) -> None:
    store = RedisStore(store_url, 10.0)
    keys = key_admin_at(ApiKeyTable(store.command), time.time)
    async with worker(store_url, auth="required") as client:
        for _ in range(2 * MOST_WRONG_KEYS):
            assert (await client.get("/learners")).status_code == 401
        statuses = [(await client.get("/learners", headers=bearer(WRONG))).status_code for _ in range(25)]
        assert statuses == [401] * MOST_WRONG_KEYS + [429] * 5
        refused = await client.get("/learners", headers=bearer(WRONG))
        assert refused.json()["type"] == "urn:wager:problem:too-many-wrong-keys"
        assert 1 <= int(refused.headers["retry-after"]) <= WINDOW_SECONDS
        key = await keys.create("x", ["read"])
        for _ in range(3):
            assert (await client.get("/learners", headers=bearer(key))).status_code == 200
        assert (await client.get("/learners", headers=bearer(WRONG))).status_code == 429
        assert (await client.get("/learners")).status_code == 401
        assert (await client.get("/livez")).status_code == 200
    await store.close()
