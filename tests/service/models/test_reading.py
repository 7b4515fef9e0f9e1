"""The laws of reading stored models: one pass over any history, and no more than what is new."""

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.compute import Compute
from service.errors import NewerVersionError, StoreCorruptError
from service.models.changes import read_change
from service.models.model import Model
from service.models.reading import ModelReader, read_model, stored_model
from service.store import stored_models
from service.store.stored_models import ModelKey, StoredModel, digests_of

T = TypeVar("T")
Args = TypeVarTuple("Args")

_MODES = st.sampled_from(["online", "frozen", "logging"])
_HOLDOUTS = st.sampled_from([None, {"fraction": 0.1, "policy": "uniform"}])
_LEARNERS = st.sampled_from([{"algorithm": "fastcb"}, {"algorithm": "gaptron", "loss": "hinge"}])


class CountingCompute(Compute):
    """Runs everything at once, and counts it."""

    def __init__(self) -> None:
        super().__init__(2)
        self.runs = 0

    async def run_in_thread_if_costly(self, _: int, __: str, function: Callable[[*Args], T], *args: *Args) -> T:
        self.runs += 1
        return function(*args)


def stored(changes: Sequence[dict[str, Any]], labels: Sequence[str] = ("a", "b"), name: str = "m") -> StoredModel:
    definition = {"name": name, "labels": labels, "features": {"kind": "dense", "size": 2}}
    history = tuple(json.dumps(each | {"at": float(at)}) for at, each in enumerate(changes))
    text = json.dumps(definition)
    return StoredModel(ModelKey(name, "one"), text, 0.0, 0, 0, 0, history=history, digests=digests_of((text, *history)))


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    labels, retired, changes = ["a", "b"], set[str](), list[dict[str, Any]]()
    for number in range(draw(st.integers(0, 12))):
        match draw(st.integers(0, 4)):
            case 0:
                added = [f"l{number}-{i}" for i in range(draw(st.integers(1, 3)))]
                gone = draw(st.sets(st.sampled_from([each for each in labels if each not in retired]), max_size=1))
                changes.append({"labels": {"add": added, "retire": sorted(gone)}})
                labels, retired = labels + added, retired | gone
            case 1:
                changes.append({"policies": {"mode": draw(_MODES), "window_seconds": draw(st.floats(1.0, 9.0))}})
            case 2:
                changes.append({"policies": {"holdout": draw(_HOLDOUTS)}})
            case 3:
                changes.append({"policies": {"retain_rounds": draw(st.integers(0, 9))}, "state": "initial"})
            case _:
                changes.append({"learner": draw(_LEARNERS), "state": "initial"})
    return changes


def facts(model: Model) -> dict[str, Any]:
    return {each.name: getattr(model, each.name) for each in dataclasses.fields(model) if each.name != "digests"}


@settings(deadline=None, derandomize=True, max_examples=40)
@given(histories())
def test_every_way_of_reading_a_history_gives_the_same_model(changes: list[dict[str, Any]]) -> None:
    asyncio.run(_check_every_way(changes))


async def _check_every_way(changes: list[dict[str, Any]]) -> None:
    whole, compute, reader = stored(changes), CountingCompute(), ModelReader(CountingCompute())
    step, read = stored_model(whole, 0), [stored_model(whole, n) for n in range(len(changes) + 1)]
    for number, line in enumerate(whole.history, 1):
        step = step.changed(read_change(line))
        assert facts(step) == facts(read[number])
        growing = whole._replace(history=whole.history[:number], digests=whole.digests[: 8 * (number + 1)])
        assert facts(await reader.read(growing)) == facts(read[number])
    for known, wanted in itertools.product(read, repeat=2):
        assert await read_model(compute, whole, wanted.change_count, known) == wanted


async def test_a_model_of_a_lost_history_is_not_continued() -> None:
    lost, kept = {"labels": {"add": ["lost"]}}, {"labels": {"add": ["kept"]}}
    reader = ModelReader(CountingCompute())
    assert (await reader.read(stored([lost]))).definition.labels == ["a", "b", "lost"]
    assert (await reader.read(stored([kept]))).definition.labels == ["a", "b", "kept"]
    later = await read_model(
        CountingCompute(), stored([kept, {"labels": {"retire": ["a"]}}]), 2, stored_model(stored([lost]))
    )
    assert (later.definition.labels, later.retired) == (["a", "b", "kept"], frozenset("a"))
    other = stored([lost])._replace(key=ModelKey("m", "two"))
    assert (await read_model(CountingCompute(), other, 1, stored_model(stored([lost])))).key == other.key


async def test_a_reader_reads_each_history_once() -> None:
    """A model that has not changed is not read again, and its reader's tables do not stay."""
    compute = CountingCompute()
    reader, one, two = ModelReader(compute), stored([{"labels": {"add": ["c"]}}]), stored([], name="n")
    for _ in range(3):
        model, _ = await reader.read(one), await reader.read(two)
        assert "answers" not in vars(model)
        assert model.choice.answers.choices == 3
    assert compute.runs == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"policies": {"pace": 1}}, NewerVersionError),
        ({"policies": {"window_seconds": "long"}}, StoreCorruptError),
        ({"labels": {"add": ["a"]}}, StoreCorruptError),
        ({"labels": {"add": ["c"], "retire": ["c"]}}, StoreCorruptError),
        ({"labels": {"retire": ["c"]}}, StoreCorruptError),
        ({"labels": {"retire": ["a"]}}, StoreCorruptError),
    ],
    ids=str,
)
def test_a_history_that_does_not_fit_is_reported(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        stored_model(stored([{"policies": {"mode": "frozen"}}, change]))


async def test_a_reader_hashes_each_change_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed, digest_after = list[bytes](), stored_models.digest_after

    def counting(digest: bytes, line: bytes) -> bytes:
        hashed.append(line)
        return digest_after(digest, line)

    whole, reader = (
        stored([{"policies": {"window_seconds": 5.0 + i}} for i in range(40)]),
        ModelReader(CountingCompute()),
    )
    monkeypatch.setattr(stored_models, "digest_after", counting)
    for number in (*range(41), 40, 40):
        known = whole._replace(history=whole.history[:number], digests=whole.digests[: 8 * (number + 1)])
        assert (await reader.read(known)).digests == known.digests
    assert hashed == [line.encode() for line in (whole.definition, *whole.history)]


def test_a_history_without_its_digests_is_corrupt() -> None:
    whole = stored([{"policies": {"window_seconds": 5.0}}, {"policies": {"window_seconds": 6.0}}])
    others = (whole.definition.replace('"b"', '"c"'), whole.history), (whole.definition, whole.history[::-1])
    for definition, history in others:
        with pytest.raises(StoreCorruptError, match="digests"):
            stored_model(whole._replace(definition=definition, history=history))
