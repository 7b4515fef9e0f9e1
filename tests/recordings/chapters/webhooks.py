"""Feedback by webhooks: with good and bad signatures, as feedback and as events."""

import json
from typing import Any

from tests.recordings.chapters.teaching import DENSE, LABELS, contexts
from tests.recordings.playing import Chapter, Play
from tests.service.api.test_webhooks import FOREIGN, NOW, OLDER, SECRET, signed

_PATH = "/webhooks/feedback"


async def _send(play: Play, body: Any, headers: dict[str, str] | None = None) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    await play.send("POST", _PATH, content=content, headers=signed(content) if headers is None else headers)


async def _play(play: Play) -> None:
    name = await play.create("m", labels=LABELS, features=DENSE)
    for number in range(4):
        request = {"model": name, "context": contexts(number, 1)[0], "prediction_id": f"p{number}"}
        await play.post("/predict", request)
    await play.post(
        "/predict", {"model": name, "context": contexts(9, 1)[0], "prediction_id": "off", "activated": False}
    )
    one: dict[str, Any] = {"prediction_id": f"{name}:p0", "correct": True}
    bodies: list[Any] = [one, one, one | {"correct": False}, {"prediction_id": f"{name}:p1", "reward": 0.5},
                 {"prediction_id": f"{name}:no", "correct": True}, {"prediction_id": f"{name}:off", "correct": True},
                 {"prediction_id": f"{name}:p2", "true_label": "pink"}, {"prediction_id": f"{name}:p2"}, {}, [], b"{",
                 b"", one | {"more": 1}, {"type": "feedback", "data": one | {"more": 1}},
                 {"type": "feedback", "timestamp": "2027-01-15T08:00:00Z",
                  "data": {"prediction_id": f"{name}:p2", "correct": True}},
                 {"specversion": "1.0", "id": "1", "source": "shop", "type": "sold",
                  "data": {"prediction_id": f"{name}:p3", "correct": False}},
                 {"specversion": "1.0", "id": "1", "source": "shop", "type": "sold"},
                 {"data": "text"}]  # fmt: skip
    for body in bodies:
        await _send(play, body)
    content = json.dumps(one).encode()
    good = signed(content)
    both = {"webhook-signature": f"v1,AAAA {good['webhook-signature']}"}
    for headers in (signed(content, OLDER), signed(content, FOREIGN), signed(content, at=NOW - 299),
                    signed(content, at=NOW - 301), signed(content, at=NOW + 301), signed(content + b" "), {},
                    good | both, good | {"webhook-signature": "v2,AAAA"}, good | {"webhook-timestamp": "soon"},
                    good | {"webhook-id": "other"}, good | {"webhook-signature": ""},
                    good | {"content-type": "text/plain"}):  # fmt: skip
        await _send(play, content, headers)
    await play.get(f"/models/{name}")


async def _closed(play: Play) -> None:
    await _send(play, {"prediction_id": "a:b", "correct": True})


CHAPTERS = [Chapter("webhooks", _play, {"webhook_secrets": f"{SECRET},{OLDER}"}), Chapter("webhooks-off", _closed)]
