"""The propensities of a log, recomputed from it: under the rules, the costs, λ, and the changes of its model."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2

from tests.chaos.logged import read
from toolkit.offline_replay.distributions import Distributions
from toolkit.offline_replay.history import History

TOGETHER = 1_000
"""Rounds that are decided again together."""


async def propensity_violations(
    client: httpx2.AsyncClient,
    model: str,
    lines: Sequence[dict[str, Any]],
    is_decided: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> list[str]:
    """Return a sentence for each round with a propensity that the log does not give.

    Args:
        client: a client with a key.
        model: name of a model with labels.
        lines: its whole log.
        is_decided: whether the model itself decided a round.
    """
    pages = {after: page async for after, page in _changes(client, model)}
    replayed = Distributions((await read(client, f"/models/{model}")).json(), History(pages.__getitem__))
    parts = [lines[start : start + TOGETHER] for start in range(0, len(lines), TOGETHER)]
    found = [each for part in parts for each in replayed.of(part)]
    wrong = [line["round"] for line, each in zip(lines, found, strict=True) if each is None and is_decided(line)]
    why = "; ".join(replayed.reasons)
    return [f"round {number} of {model} has a propensity that the log does not give: {why}" for number in wrong]


async def _changes(client: httpx2.AsyncClient, model: str) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    """Yield the pages of a model's changes, each with the number of changes before it; the last one is empty."""
    after = 0
    while True:
        page: dict[str, Any] = (await read(client, f"/models/{model}/changes", after=after)).json()
        yield after, page
        if not page["changes"]:
            return
        after += len(page["changes"])
