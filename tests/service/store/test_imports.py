"""The laws of imported rounds: each kind of store x each law."""

import struct

import pytest

from service.errors import ModelNotFoundError, StoreCorruptError
from service.store import keys
from service.store.stored_models import ModelKey
from service.store.values import MOST_SOURCES, ImportBatch, ImportBlock, Imported
from tests.servers import raw
from tests.service.store.samples import FORMAT, NEW, NOW, as_bytes, digest_of, sample_block
from tests.service.store.scenario import Scenario


def part(place: int, n: int, source: str = "file", digest: bytes = NEW, label: int = 2) -> ImportBatch:
    outcome = struct.pack("<d", 1.0) + as_bytes(label)
    block = sample_block(f"~{source}-{place}", n, label, digest)
    return ImportBatch(source, place, n, [ImportBlock(block.id, block.record, outcome * n)], digest)


async def test_rounds_are_appended_once(scenario: Scenario) -> None:
    add = scenario.store.import_rounds
    assert await add(scenario.key, part(0, 3), NOW) == Imported(3, 3, 0, True)
    assert await add(scenario.key, part(0, 3), NOW) == Imported(3, 3, 0, False)
    assert await add(scenario.key, part(5, 1), NOW) == Imported(3, 3, 0, False)
    assert await add(scenario.key, part(3, 2), NOW + 1) == Imported(5, 5, 0, True)
    assert await add(scenario.key, part(0, 1, "other"), NOW) == Imported(1, 6, 0, True)
    assert await scenario.numbers() == [1, 2, 3, 4, 5, 6]
    assert await scenario.counters() == (6, 6, 6)


async def test_imported_rounds_follow_others(scenario: Scenario) -> None:
    await scenario.play(2)
    assert await scenario.store.import_rounds(scenario.key, part(0, 2), NOW + 5) == Imported(2, 4, 0, True)
    await scenario.predict("later")
    tail = await scenario.store.read_tail(scenario.key, 2, 10)
    rows = FORMAT.rows([entry.payload for entry in tail.entries])
    assert rows.table["round"].tolist() == [3, 4]
    assert rows.table["feedback_at"].tolist() == [NOW + 5] * 2
    assert rows.table["truth"].tolist() == rows.table["output"].tolist() == [2, 2]


async def test_rounds_for_another_definition_are_refused(scenario: Scenario) -> None:
    assert await scenario.store.change_model(
        scenario.key, await digest_of(scenario.store, scenario.key.name), '{"at": 1}', "{}"
    )
    after = await digest_of(scenario.store, scenario.key.name)
    assert await scenario.store.import_rounds(scenario.key, part(0, 1), NOW) == Imported(0, 0, 1, False)
    assert await scenario.store.import_rounds(scenario.key, part(0, 1, digest=after), NOW) == Imported(1, 1, 1, True)


async def test_a_damaged_block_appends_nothing(scenario: Scenario) -> None:
    good, bad = part(0, 2), part(2, 2)
    (block,) = bad.blocks
    for broken in (block._replace(record=block.record[:-1]), block._replace(outcomes=block.outcomes[:-1])):
        whole = good._replace(size=4, blocks=[*good.blocks, broken])
        with pytest.raises(StoreCorruptError):
            await scenario.store.import_rounds(scenario.key, whole, NOW)
    assert await scenario.counters() == (0, 0, 0)
    assert await scenario.store.import_rounds(scenario.key, good, NOW) == Imported(2, 2, 0, True)


async def test_the_last_sources_are_listed(scenario: Scenario) -> None:
    for number in range(MOST_SOURCES + 2):
        await scenario.store.import_rounds(scenario.key, part(0, 1, f"s{number}"), NOW + number)
    await scenario.store.import_rounds(scenario.key, part(1, 1, "s2"), NOW + 1000)
    found = await scenario.store.read_imports(scenario.key)
    assert len(found) == MOST_SOURCES
    assert found[0] == ("s2", 2, NOW + 1000)
    assert [each.source for each in found[1:]] == [f"s{n}" for n in range(MOST_SOURCES + 1, 2, -1)]


async def test_a_damaged_position_stops_the_import(scenario: Scenario, any_store_url: str) -> None:
    with raw(any_store_url) as client:
        client.hset(keys.imports(*scenario.key), "file", "many 1")
    with pytest.raises(StoreCorruptError):
        await scenario.store.import_rounds(scenario.key, part(0, 1), NOW)
    with pytest.raises(StoreCorruptError):
        await scenario.store.read_imports(scenario.key)
    assert await scenario.counters() == (0, 0, 0)


async def test_a_missing_model_imports_nothing(scenario: Scenario) -> None:
    with pytest.raises(ModelNotFoundError):
        await scenario.store.import_rounds(ModelKey(scenario.key.name, "second"), part(0, 1), NOW)
