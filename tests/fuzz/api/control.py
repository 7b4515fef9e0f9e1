"""A model of the tests' own among the fuzzed ones, which must stay what its log says."""

import math
from typing import Any

import httpx2
import numpy as np

from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import LABELS, definition, distribution_of, learner_of, prepared, true_state

CONTROL = "control-model"
SECRET = "only-of-the-control-model"
"""A label of the model, which no caller without access to the model may see."""
CONTEXT = [0.6, 0.8, 0.0]


class Control:
    """The control model, and the rounds that the tests themselves taught it.

    Args:
        client: calls the worker.
        store: the worker's store.
        headers: of a key for the model.
    """

    def __init__(self, client: httpx2.AsyncClient, store: RedisStore, headers: dict[str, str]) -> None:
        self._client, self._store, self._headers = client, store, headers
        self.taught = 0

    async def create(self) -> None:
        """Create the model."""
        body = definition(CONTROL, labels=[*LABELS, SECRET])
        answer = await self._client.post("/models", json=body, headers=self._headers)
        assert answer.status_code == 201, answer.text

    async def check(self, closed: bool) -> None:
        """Check that the service predicts with the fold of the log, and learns.

        Args:
            closed: whether nobody else may have taught the model.
        """
        body = {"model": CONTROL, "context": CONTEXT, "include_distribution": True}
        answer = await self._ask("POST", "/predict", body)
        await self._compare(answer["distribution"], closed)
        feedback = {"prediction_id": answer["prediction_id"], "correct": answer["label"] == LABELS[0]}
        await self._ask("POST", "/feedback", feedback)
        self.taught += 1

    async def _compare(self, distribution: dict[str, float], closed: bool) -> None:
        model, state = await self._ask("GET", f"/models/{CONTROL}"), await true_state(self._store, CONTROL)
        assert all(np.isfinite(array).all() for array in state), "a number of the state is not finite"
        expected = distribution_of(learner_of(model), state, prepared(model, CONTEXT))
        given = [distribution[label] for label in model["labels"]]
        close = all(math.isclose(one, other, rel_tol=1e-9) for one, other in zip(given, expected, strict=True))
        assert close, f"the worker predicts with {given}, its log with {expected}"
        assert not closed or model["rounds_seen"] == self.taught, (
            f"{model['rounds']} rounds, {self.taught} of the tests"
        )

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = await self._client.request(method, path, json=body, headers=self._headers)
        assert answer.status_code == 200, answer.text
        return answer.json()
