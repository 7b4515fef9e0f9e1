"""Clients that import rounds in overlapping parts beside predictions: each round of a source comes once, in order."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import httpx2
import numpy as np

from tests.chaos.clients import post, state_violations
from tests.chaos.logged import count_violations, history_violations, lines_of, read, to_line
from tests.chaos.recorder import Recorder, sending
from tests.chaos.replayed import propensity_violations
from tests.service.sample_models import LABELS, SOBA_DIAGONAL

MODEL = "archive"
MOST = 40
"""Most rounds of a part."""


class Importers(Recorder):
    """Clients that each import one source, and predict for the same model."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": SOBA_DIAGONAL}
    count = 2

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 10])
        self.imported: dict[str, int] = defaultdict(int)  # by source
        self._wrong: list[str] = []

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        await self._import(client, own.partition("-")[0], rng)
        body = {"model": MODEL, "context": [float(rng.random()), -1.0, 0.0], "prediction_id": own}
        await self._send_until_answered(client, sending("/predict", body, [(own, None)]))
        bit = bool(rng.random() < 0.5)
        feedback = sending("/feedback", {"prediction_id": f"{MODEL}:{own}", "correct": bit}, [(own, bit)])
        await self._together(client, rng, [feedback] * 2)

    async def _import(self, client: httpx2.AsyncClient, source: str, rng: np.random.Generator) -> None:
        """Import the next part of a source, which begins with rounds of the last one."""
        begin, number = self.imported[source], int(rng.integers(1, MOST))
        first = max(0, begin - int(rng.integers(3)))
        rounds = [imported_round(source, i) for i in range(first, begin + number)]
        answer = await post(client, f"/models/{MODEL}/rounds", {"source": source, "offset": first, "rounds": rounds})
        self.imported[source] = begin + number
        if answer.get("position") != begin + number:
            self._wrong.append(f"the import of {begin + number} rounds of {source} got {answer}")

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the model, its log and its workers, as sentences."""
        lines = [line async for line in lines_of(client, MODEL)]
        model = (await read(client, f"/models/{MODEL}")).json()
        own = [to_line(line) for line in lines if not is_imported(line)]
        every = [to_line(line) for line in lines]
        wrong = [*self._wrong, *count_violations(model, every), *history_violations(self, own)]
        wrong += import_violations(self.imported, lines)
        wrong += await propensity_violations(client, MODEL, lines, lambda line: not is_imported(line))
        return wrong + await state_violations(self._url, {"model": MODEL, "context": [1.0, -1.0, 0.0]})


def imported_round(source: str, number: int) -> dict[str, Any]:
    """Return a round of a source; its context tells which one it is."""
    context = [float(source), 1.0, float(number)]
    label, correct = LABELS[number % len(LABELS)], number % 3 == 0
    return {"context": context, "label": label, "propensity": 0.25, "correct": correct}


def is_imported(line: Mapping[str, Any]) -> bool:
    """Check whether a line of the log is a round of a source."""
    return bool(line["context"][1] == 1.0)


def import_violations(imported: Mapping[str, int], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each source whose rounds are not in the log as given, once, and in order."""
    found = defaultdict[str, list[dict[str, Any]]](list)
    for line in filter(is_imported, lines):
        kept = {name: line[name] for name in ("context", "label", "propensity", "correct")}
        found[f"{line['context'][0]:g}"].append(kept)
    expected = {source: [imported_round(source, i) for i in range(n)] for source, n in imported.items() if n}
    wrong = [source for source in found.keys() | expected.keys() if found.get(source) != expected.get(source)]
    return [f"source {source} is not in the log as it was imported" for source in sorted(wrong)]
