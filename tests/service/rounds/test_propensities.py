"""True propensities: the stored number is the probability that the label was drawn with."""

import asyncio
import json
from collections import Counter
from typing import Any

import httpx2
import pytest
from scipy import stats

from tests.service.sample_models import LEARNER_CHOICES, definition, replay, some_contexts

DRAWS = 100_000
BATCH = 1000
MORE_CHOICES = [
    *LEARNER_CHOICES,
    {"algorithm": "gaptron", "loss": "hinge", "exploration": 0.3},
    {"algorithm": "soba-diagonal", "exploration": "adaptive"},
]


def spelled(choice: dict[str, Any]) -> str:
    """Return a learner choice as a test id."""
    return "-".join(str(value) for value in choice.values())


async def post(client: httpx2.AsyncClient, path: str, **body: Any) -> Any:
    """Post a JSON object; return the answer's."""
    response = await client.post(path, json=body)
    assert response.status_code < 300, response.text
    return response.json()


async def teach(client: httpx2.AsyncClient, name: str, rounds: int) -> None:
    """Play rounds in which `green` is right for a positive first number, and `blue` otherwise."""
    contexts = some_contexts(3, rounds)
    body = await post(client, "/predict/batch", model=name, contexts=contexts)
    truths = ["green" if context[0] > 0 else "blue" for context in contexts]
    pairs = zip(body["predictions"], truths, strict=True)
    feedback = [{"prediction_id": item["prediction_id"], "true_label": truth} for item, truth in pairs]
    await post(client, "/feedback/batch", feedback=feedback)


async def count_draws(client: httpx2.AsyncClient, name: str, context: list[float]) -> Counter[tuple[str, float]]:
    """Count each pair of label and propensity over DRAWS predictions."""
    contexts = [context] * BATCH
    counts: Counter[tuple[str, float]] = Counter()
    for _ in range(DRAWS // BATCH):
        body = await post(client, "/predict/batch", model=name, contexts=contexts)
        counts.update((item["label"], item["propensity"]) for item in body["predictions"])
    return counts


@pytest.mark.parametrize("choice", LEARNER_CHOICES, ids=spelled)
async def test_labels_are_drawn_with_their_propensities(
    client: httpx2.AsyncClient, name: str, choice: dict[str, Any]
) -> None:
    """Over 10⁵ draws each label's frequency matches its propensity, which never varies."""
    await post(client, "/models", **definition(name, learner=choice))
    await teach(client, name, 400)
    context = [1.0, -0.5, 0.2]
    answer = await post(client, "/predict", model=name, context=context, include_distribution=True)
    distribution = {label: chance for label, chance in answer["distribution"].items() if chance > 0}
    counts = await count_draws(client, name, context)
    assert dict(counts.keys()) == distribution
    assert len(counts) == len(distribution)
    observed = [counts[each] for each in distribution.items()]
    assert stats.chisquare(observed, [DRAWS * chance for chance in distribution.values()]).pvalue > 1e-3


@pytest.mark.parametrize("choice", MORE_CHOICES, ids=spelled)
async def test_the_log_has_the_propensity_that_was_answered(
    client: httpx2.AsyncClient, name: str, choice: dict[str, Any]
) -> None:
    """Answer, distribution and log have the same number, to the bit, and a replay of the log reproduces it."""
    model = await post(client, "/models", **definition(name, learner=choice))
    answers = {}
    for batch in range(10):
        contexts = some_contexts(batch, 20)
        items = await post(client, "/predict/batch", model=name, contexts=contexts, include_distribution=True)
        for item in items["predictions"]:
            assert item["distribution"][item["label"]] == item["propensity"]
            answers[item["prediction_id"]] = (item["label"], item["propensity"], item["rounds_seen"])
        feedback = [
            {"prediction_id": item["prediction_id"], "correct": i % 3 == 0}
            for i, item in enumerate(items["predictions"])
        ]
        await post(client, "/feedback/batch", feedback=feedback)
    log = (await client.get(f"/models/{name}/rounds")).text
    lines = [json.loads(line) for line in log.splitlines()]
    assert {
        line["prediction_id"]: (line["label"], line["propensity"], line["rounds_seen"]) for line in lines
    } == answers
    replay(model, log, tolerance=1e-9)


async def test_draws_of_a_batch_are_independent(client: httpx2.AsyncClient, name: str) -> None:
    """Neighbouring labels of a batch form every pair equally often."""
    await post(client, "/models", **definition(name, learner={"algorithm": "uniform"}))
    pairs: Counter[tuple[str, str]] = Counter()
    for _ in range(16):
        body = await post(client, "/predict/batch", model=name, contexts=[[1.0, 0.0, 0.0]] * BATCH)
        labels = [item["label"] for item in body["predictions"]]
        pairs.update(zip(labels[::2], labels[1::2], strict=True))
    assert len(pairs) == 16
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-3


async def test_draws_of_coalesced_requests_are_independent(client: httpx2.AsyncClient, name: str) -> None:
    """Every label is equally frequent among coalesced requests."""
    await post(client, "/models", **definition(name, learner={"algorithm": "uniform"}))
    body = {"model": name, "context": [1.0, 0.0, 0.0]}
    answers = []
    for _ in range(2):  # a worker accepts a thousand concurrent requests
        answers += await asyncio.gather(*(post(client, "/predict", **body) for _ in range(1000)))
    counts = Counter(answer["label"] for answer in answers)
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3
