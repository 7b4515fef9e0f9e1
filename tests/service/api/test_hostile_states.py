"""The laws of states in imported files: no numbers in them stop a worker, or give it NaN."""

import itertools
import json
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import httpx2
import numpy as np
import pytest

from learners.registry import ALL_LEARNERS
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.api.test_copies import edited, exported, imported
from tests.service.api.test_statistics import publish
from tests.service.rounds.test_every_learner import create, play, truth_of
from tests.service.workers import worker

X = [0.2, -0.5, 0.8]
QUICK = ["bandit-perceptrons-kernel", "folklore"]
FLOATS = [np.nan, np.inf, -1.0, 1e-300, 1e30, 1e60, -1e60, 1e100, 1.7e308, -1.7e308]
COUNTS = [-1, 1, 1000, 2**31, 2**53, 2**62, -(2**63), 2**63 - 1]


def corrupted(content: bytes, floats: Sequence[float] = FLOATS) -> Iterator[tuple[str, bytes]]:
    """Yield files with one corrupt number at the begin or the end of an array, or in all of it."""
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    for name, entry in sorted(header.items()):
        if name == "__metadata__" or entry["data_offsets"][0] == entry["data_offsets"][1]:
            continue
        start, stop = (begin + place for place in entry["data_offsets"])
        dtype, values = (np.int64, COUNTS) if entry["dtype"] == "I64" else (np.float64, floats)
        for value in values:
            for where in (slice(None), 0, -1):
                array = np.frombuffer(content[start:stop], dtype).copy()
                array[where] = value
                yield f"{name}{where} = {value}", content[:start] + array.tobytes() + content[stop:]


async def use(api: Api, kind: Any) -> None:
    """Predict and learn; an answer has true probabilities, or is the problem of a learner that failed."""
    for i in range(3):
        context = list(np.roll(X, i))
        answer = await api.predict(context, include_distribution=kind != "ranking")
        if answer.status_code == 500:
            problem_of(answer, 500, "learner-failed")
            continue
        made = body_of(answer, 200)
        assert 0.0 < made["propensity"] <= 1.0
        assert all(0.0 <= p <= 1.0 for p in (made["distribution"] or {}).values())
        body_of(await api.judge(made["prediction_id"], **truth_of(kind, context)), 200)


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in sorted(ALL_LEARNERS)],
)
async def test_no_state_stops_a_worker(store_url: str, name: str, algorithm: str, request: Any) -> None:
    """A corrupt state is refused, or the model is served as any other; the intact one is imported."""
    thorough = "slow" in request.config.option.markexpr
    async with worker(store_url) as client:
        kind = await create(client, name, algorithm)
        await play(client, name, kind)
        content = await exported(Api(client, "", name))
        copy = Api(client, "", f"{name}-copy")
        body_of(await imported(copy, content), 201)
        await use(copy, kind)
        cases = list(corrupted(content))
        for case, broken in cases if thorough else cases[:: max(1, len(cases) // 8)]:
            await copy.delete(f"/models/{copy.name}")
            answer = await imported(copy, broken)
            assert answer.status_code in (201, 422), f"{case}: {answer.text}"
            if answer.status_code == 201:
                await use(copy, kind)
                assert (await copy.get(f"/models/{copy.name}/statistics")).status_code == 200, case
        assert (await client.get("/readyz")).status_code == 200


async def refused(client: httpx2.AsyncClient, name: str, array: str, value: float) -> None:
    """Check that a model with an array of such numbers is refused."""
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    body_of(await api.create(learner={"algorithm": "folklore"}), 201)
    cases = dict(corrupted(await exported(api), [value]))
    problem_of(await imported(copy, cases[f"{array}{slice(None)} = {value}"]), 422, "invalid-model-file")


async def test_huge_numbers_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    """Decisions from them may be finite, but not those of later rounds."""
    await refused(client, name, "solution", 1e61)


async def test_numbers_with_which_a_learner_cannot_decide_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    """They are finite and not huge, but the decisions of compiled code from them are not finite."""
    await refused(client, name, "inverse", 1e59)


NUMBERS: list[Any] = [True, None, "1", -1, 0.5, 5e-324, 1e300, 10**14, 10**15 - 1, 10**15, 2**63, 10**40]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of the numbers in a JSON value; of a list, that of its first one."""
    match value:
        case dict():
            for key, each in value.items():
                yield from places(each, (*path, key))
        case [first, *_]:
            yield from places(first, (*path, 0))
        case bool():
            return
        case int() | float():
            yield path


def altered(content: bytes, entry: str, path: tuple[Any, ...], value: Any) -> bytes:
    """Return a file with another value in one place of its metadata."""

    def edit(header: dict[str, Any]) -> None:
        whole = json.loads(header["__metadata__"][entry])
        reduce(lambda part, key: part[key], path[:-1], whole)[path[-1]] = value
        header["__metadata__"][entry] = json.dumps(whole)

    return edited(content, edit)


async def test_no_number_of_the_metadata_stops_a_worker(
    client: httpx2.AsyncClient, store: RedisStore, name: str
) -> None:
    """Each number of the model and of its statistics is refused, or the model works and publishes its statistics."""
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    kind = await create(client, name, "fastcb")
    await play(client, name, kind)
    body_of(await api.change("*", window_seconds=7.0), 200)
    content, accepted = await exported(api), 0
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    paths = [(entry, path) for entry in ("model", "statistics") for path in places(json.loads(metadata[entry]))]
    for (entry, path), value in itertools.product(paths, NUMBERS):
        case = f"{entry} {path} = {value!r}"
        answer = await imported(copy, altered(content, entry, path, value))
        assert answer.status_code in (201, 422), f"{case}: {answer.text}"
        if answer.status_code == 201:
            accepted += 1
            await check_works(copy, store, kind, case)
            await copy.delete(f"/models/{copy.name}")
    assert accepted > 10


async def check_works(copy: Api, store: RedisStore, kind: Any, case: str) -> None:
    """Check that an imported model learns, publishes its statistics, and can be exported again."""
    await use(copy, kind)
    await publish(store, copy.name)
    for part in ("", "/statistics", "/rounds", "/evaluation", "/export"):
        assert (await copy.get(f"/models/{copy.name}{part}")).status_code == 200, f"{case}: {part}"
    assert body_of(await copy.get(f"/models/{copy.name}/statistics"), 200)["fold_lag"] == 0, case
