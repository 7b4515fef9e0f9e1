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
    """A learner's choice as the name of a test."""
    return "-".join(str(value) for value in choice.values())


async def post(client: httpx2.AsyncClient, path: str, **body: Any) -> Any:
    """Posts an object; the answer's."""
    response = await client.post(path, json=body)
    assert response.status_code < 300, response.text
    return response.json()


async def teach(client: httpx2.AsyncClient, name: str, rounds: int) -> None:
    """Rounds in which `green` is right where the first number is positive, and `blue` elsewhere."""
    contexts = some_contexts(3, rounds)
    body = await post(client, "/predict/batch", model=name, contexts=contexts)
    truths = ["green" if context[0] > 0 else "blue" for context in contexts]
    pairs = zip(body["predictions"], truths, strict=True)
    said = [{"prediction_id": item["prediction_id"], "true_label": truth} for item, truth in pairs]
    await post(client, "/feedback/batch", feedback=said)


async def drawn(client: httpx2.AsyncClient, name: str, context: list[float]) -> Counter[tuple[str, float]]:
    """How often each label came with each propensity."""
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
    """Over 10⁵ draws each label comes as often as its propensity says, and always with that propensity."""
    await post(client, "/models", **definition(name, learner=choice))
    await teach(client, name, 400)
    context = [1.0, -0.5, 0.2]
    told = await post(client, "/predict", model=name, context=context, include_distribution=True)
    distribution = {label: chance for label, chance in told["distribution"].items() if chance > 0}
    counts = await drawn(client, name, context)
    assert dict(counts.keys()) == distribution
    assert len(counts) == len(distribution)
    observed = [counts[each] for each in distribution.items()]
    assert stats.chisquare(observed, [DRAWS * chance for chance in distribution.values()]).pvalue > 1e-3


@pytest.mark.parametrize("choice", MORE_CHOICES, ids=spelled)
async def test_the_log_has_the_propensity_that_was_answered(
    client: httpx2.AsyncClient, name: str, choice: dict[str, Any]
) -> None:
    """Answer, distribution and log tell the same number, to the bit, and a replay of the log finds it again."""
    model = await post(client, "/models", **definition(name, learner=choice))
    answers = {}
    for batch in range(10):
        contexts = some_contexts(batch, 20)
        items = await post(client, "/predict/batch", model=name, contexts=contexts, include_distribution=True)
        for item in items["predictions"]:
            assert item["distribution"][item["label"]] == item["propensity"]
            answers[item["prediction_id"]] = (item["label"], item["propensity"], item["rounds_seen"])
        said = [
            {"prediction_id": item["prediction_id"], "correct": i % 3 == 0}
            for i, item in enumerate(items["predictions"])
        ]
        await post(client, "/feedback/batch", feedback=said)
    log = (await client.get(f"/models/{name}/rounds")).text
    lines = [json.loads(line) for line in log.splitlines()]
    assert {
        line["prediction_id"]: (line["label"], line["propensity"], line["rounds_seen"]) for line in lines
    } == answers
    replay(model, log, tolerance=1e-9)


async def test_draws_do_not_follow_each_other(client: httpx2.AsyncClient, name: str) -> None:
    """Labels of one batch are drawn apart from each other: pairs of neighbours are as frequent as chance says."""
    await post(client, "/models", **definition(name, learner={"algorithm": "uniform"}))
    pairs: Counter[tuple[str, str]] = Counter()
    for _ in range(16):
        body = await post(client, "/predict/batch", model=name, contexts=[[1.0, 0.0, 0.0]] * BATCH)
        labels = [item["label"] for item in body["predictions"]]
        pairs.update(zip(labels[::2], labels[1::2], strict=True))
    assert len(pairs) == 16
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-3


async def test_coalesced_requests_draw_apart(client: httpx2.AsyncClient, name: str) -> None:
    """Requests that come together are drawn as independently as those that come one by one."""
    await post(client, "/models", **definition(name, learner={"algorithm": "uniform"}))
    body = {"model": name, "context": [1.0, 0.0, 0.0]}
    answers = []
    for _ in range(2):  # a worker takes a thousand requests at once
        answers += await asyncio.gather(*(post(client, "/predict", **body) for _ in range(1000)))
    counts = Counter(answer["label"] for answer in answers)
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3
