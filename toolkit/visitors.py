"""A simulated site: its visitors see one of three headlines, and click it a moment later or never."""

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from service.json_values import JsonObject
from toolkit.remote import RemoteError, call

NAME = "headlines"
HEADLINES = ("plain", "question", "number")
"""The favourite of the visitors is each of them in turn."""

CHANGE_SECONDS = 60.0
"""How long the visitors have the same favourite."""

FAVOURITE_RATE, OTHER_RATE = 0.5, 0.1
"""The probability of a click on the favourite, and on another headline."""

DEFINITION: JsonObject = {
    "name": NAME,
    "labels": list(HEADLINES),
    "reward": "clicks",
    "on_expiry": "incorrect",
    "window_seconds": 3.0,
    "holdout": {"fraction": 0.1, "policy": "uniform"},
    "learner": {"algorithm": "fastcb", "restart_risk": 1e-6},
}
"""The default learner, which begins anew when it notices an abrupt change."""

_CLICK_SECONDS = 0.5, 2.0  # from a headline to its click: within the window, also where the service answers late
_BATCH = 1_000  # visitors whom one request serves
_TOO_LATE = "prediction-expired", "prediction-not-found"  # problems of clicks


def is_own(model: JsonObject) -> bool:
    """Check whether a model is as `DEFINITION` creates it: the visitors have no context, and their clicks teach it."""
    own = DEFINITION | {"learner": model["learner"]}
    is_taught = DEFINITION["learner"].items() <= model["learner"].items() and model["mode"] == "online"
    return is_taught and model["features"]["kind"] == "none" and {name: model[name] for name in own} == own


@dataclass
class Group:
    """What a group of visitors saw and did."""

    visitors: int = 0
    favourites: int = 0
    """How many saw the favourite."""
    clicks: int = 0

    @property
    def favourite_share(self) -> float:
        """The share of the visitors who saw the favourite; 0 without visitors."""
        return self.favourites / max(1, self.visitors)

    @property
    def click_rate(self) -> float:
        """Clicks per visitor; 0 without visitors."""
        return self.clicks / max(1, self.visitors)

    def add(self, is_favourite: bool, clicks: bool) -> None:
        """Count one visitor."""
        self.visitors += 1
        self.favourites += is_favourite
        self.clicks += clicks


class Site:
    """Shows the headlines that the model chooses, and reports clicks, and nothing else.

    Args:
        client: of the service.
        rng: decides who clicks, and when.
        clock: returns seconds.

    Attributes:
        chosen: the visitors whose headline the learner chose.
        holdout: those whose headline was drawn uniformly.
    """

    def __init__(self, client: httpx2.Client, rng: random.Random, clock: Callable[[], float]) -> None:
        self._client, self._rng, self._clock = client, rng, clock
        self._opened_at = clock()
        self._clicks: list[tuple[float, str]] = []  # a heap: the time of each click, and its prediction
        self.chosen, self.holdout = Group(), Group()

    @property
    def seconds(self) -> float:
        """The time since the site opened."""
        return self._clock() - self._opened_at

    @property
    def changes(self) -> int:
        """How often the favourite has changed."""
        return int(self.seconds / CHANGE_SECONDS)

    @property
    def favourite(self) -> str:
        """The headline that the visitors like best now."""
        return HEADLINES[self.changes % len(HEADLINES)]

    def welcome(self, visitors: int) -> None:
        """Show a headline to each of some visitors. Raises `RemoteError` if the service fails."""
        for first in range(0, visitors, _BATCH):
            items: list[JsonObject] = [{}] * min(_BATCH, visitors - first)
            for shown in self._answers("/predict/batch", "predictions", {"model": NAME, "items": items}):
                self._show(shown)

    def report_clicks(self) -> None:
        """Send the clicks that visitors have made. Raises `RemoteError` if the service fails; they are then sent later.

        The service ignores clicks that an outage held up beyond the window.
        """
        while self._clicks and self._clicks[0][0] <= self._clock():
            due = [each for each in heapq.nsmallest(_BATCH, self._clicks) if each[0] <= self._clock()]
            feedback = [{"prediction_id": prediction, "correct": True} for _, prediction in due]
            self._answers("/feedback/batch", "results", {"feedback": feedback})
            for _ in due:
                heapq.heappop(self._clicks)

    def _show(self, shown: JsonObject) -> None:
        is_favourite = shown["label"] == self.favourite
        clicks = self._rng.random() < (FAVOURITE_RATE if is_favourite else OTHER_RATE)
        if clicks:
            click = self._clock() + self._rng.uniform(*_CLICK_SECONDS), str(shown["prediction_id"])
            heapq.heappush(self._clicks, click)
        (self.holdout if shown["holdout"] else self.chosen).add(is_favourite, clicks)

    def _answers(self, path: str, field: str, body: JsonObject) -> Sequence[Any]:
        """Return the answers to the items of a batch. Raises `RemoteError` if the service failed for one of them."""
        answers: Sequence[Any] = call(self._client, "POST", path, json=body).json()[field]
        for each in answers:
            if isinstance(each.get("status"), int) and not each["type"].endswith(_TOO_LATE):
                raise RemoteError(f"{each['title']}: {each['detail']}", each["status"])
        return answers
