"""A Locust file for teams that use Locust: users who ask for a prediction, give feedback and wait.

Locust is not part of the project's environment. docs/guides/load-testing.md says how to run this file, and what its
latencies leave out.
"""

import os
import random
import secrets
from typing import Any

from locust import HttpUser, between, events, task

LABELS = [f"label-{k}" for k in range(10)]
FEATURES = 20
MODEL = os.environ.get("WAGER_LOCUST_MODEL", f"locust-{secrets.token_hex(4)}")


class Visitor(HttpUser):
    """One user in a closed loop: a prediction, then its feedback."""

    wait_time = between(0.05, 0.15)

    def on_start(self) -> None:
        """Create the model, unless another user has created it."""
        definition = {"name": MODEL, "labels": LABELS, "features": {"kind": "dense", "size": FEATURES}}
        with self.client.post("/models", json=definition, headers=_headers(), catch_response=True) as answer:
            if answer.status_code in {201, 409}:
                answer.success()

    @task
    def round(self) -> None:
        """Play one round, in which the label of the greatest feature is right."""
        context = [random.gauss(0, 1) for _ in range(FEATURES)]
        truth = LABELS[max(range(len(LABELS)), key=context.__getitem__)]
        body = {"model": MODEL, "context": context}
        answer = self.client.post("/predict", json=body, headers=_headers())
        if answer.ok:
            drawn = answer.json()
            given = {"prediction_id": drawn["prediction_id"], "correct": drawn["label"] == truth}
            self.client.post("/feedback", json=given, headers=_headers())


@events.test_stop.add_listener
def _delete_model(environment: Any, **_: Any) -> None:
    user = Visitor(environment)
    user.client.delete(f"/models/{MODEL}", headers=_headers())


def _headers() -> dict[str, str]:
    key = os.environ.get("WAGER_API_KEY")
    return {} if key is None else {"authorization": f"Bearer {key}"}
