"""The laws of states in imported files: no numbers in them stop a worker, or give it NaN."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import numpy as np
import pytest

from learners.registry import ALL_LEARNERS
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.api.test_copies import exported, imported
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
