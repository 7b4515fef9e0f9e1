"""Clients whose feedback arrives by signed webhooks: early, twice, late, contradictory, and forged."""

import base64
import json
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any, ClassVar

import httpx2
import numpy as np
from standardwebhooks import Webhook

from tests.chaos.clients import connect, state_violations
from tests.chaos.logged import record_violations
from tests.chaos.recorder import Recorder, Sending, attempt, sending
from tests.service.sample_models import GAPTRON, SIZE

MODEL = "mailed"
SECRET, FOREIGN = (f"whsec_{base64.b64encode(bytes([i]) * 32).decode()}" for i in (1, 2))
REMEMBERED = 50
"""Deliveries that may be sent again, without a new signature: all of them must be younger than five minutes."""

OLDEST = 240.0
"""Seconds after which a delivery is not sent again."""


class Hooks(Recorder):
    """Clients that predict with a key, and a sender without one that delivers their feedback."""

    model = MODEL
    policies: ClassVar[dict[str, Any]] = {"learner": GAPTRON}
    count = 2

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, [seed, 4])
        self._delivered: deque[tuple[float, Sending]] = deque(maxlen=REMEMBERED)
        self._wrong: list[str] = []
        self.forged = 0

    async def play(self) -> None:
        """Run all clients until `over` is set."""
        async with connect(self._url, key=None) as self._sender:
            await super().play()

    async def _play_turn(self, client: httpx2.AsyncClient, own: str, rng: np.random.Generator) -> None:
        bits = (rng.random(int(rng.integers(1, 4))) < 0.7).tolist()
        deliveries = [delivery(own, bit, f"msg_{own}_{i}") for i, bit in enumerate(bits)]
        if rng.random() < 0.1:
            await self._send_until_answered(self._sender, deliveries[0])  # before the prediction: ignored
        context = rng.normal(size=SIZE).tolist()
        body = {"model": MODEL, "context": context, "prediction_id": own}
        await self._send_until_answered(client, sending("/predict", body, [(own, None)]))
        await self._forge(own)
        if rng.random() < 0.9:
            again = [each for at, each in self._delivered if at > time.time() - OLDEST and rng.random() < 0.05]
            await self._together(self._sender, rng, [*deliveries, deliveries[0], *again])
            self._delivered += [(time.time(), each) for each in deliveries]

    async def _forge(self, own: str) -> None:
        """Deliver feedback with the signature of another secret, which must be refused whatever happens."""
        answer = await attempt(self._sender, delivery(own, True, "msg_forged", FOREIGN))
        if not isinstance(answer, str) and answer.status_code != 503:
            self.forged += 1
            self._wrong += (
                [] if answer.status_code == 401 else [f"a forged webhook got {answer.status_code}: {answer.text}"]
            )

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong with the model, its log and its workers, as sentences."""
        wrong = [*self._wrong, *([] if self.forged else ["no forged webhook was answered"])]
        wrong += await record_violations(self, client)
        return wrong + await state_violations(self._url, {"model": MODEL, "context": [1.0] * SIZE})


def delivery(own: str, correct: bool, message: str, secret: str = SECRET) -> Sending:
    """Return a signed webhook with feedback; every attempt to send it has the same headers."""
    at = int(time.time())
    event = {"type": "com.shop.clicked", "data": {"prediction_id": f"{MODEL}:{own}", "correct": correct}}
    content = json.dumps(event)
    signature = Webhook(secret).sign(message, datetime.fromtimestamp(at, UTC), content)
    headers = {"webhook-id": message, "webhook-timestamp": str(at), "webhook-signature": signature}
    return Sending("/webhooks/feedback", content.encode(), [(own, correct)], headers)
