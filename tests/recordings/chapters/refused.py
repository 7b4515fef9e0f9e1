"""Every bad request of the tables of other tests, with the whole problem."""

from typing import Any

from tests.recordings.playing import Chapter, Play
from tests.service.actions import test_bad_actions
from tests.service.actions.catalogue import SHOES
from tests.service.actions.catalogue import definition as with_actions
from tests.service.api.test_error_wording import BROKEN, BY_NAME, OF_ANOTHER_KIND, QUERIES, SPARSE
from tests.service.api.test_error_wording import CREATIONS as WORDED
from tests.service.api.test_webhooks import NOW, SECRET, signed
from tests.service.bad_requests import FEEDBACK, PREDICTIONS, REFUSED
from tests.service.refused import FULL_INFORMATION, LABEL_SET, MODEL, MOST_BYTES, RANKING, X
from tests.service.sample_models import definition

_WINDOW = 60.0


async def _set_up(play: Play) -> None:
    reject = {"kind": "dense", "size": 3, "norm": "reject", "intercept": False}
    full = {"algorithm": "gaptron", "information": "full"}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/models", definition(MODEL, features=reject, window_seconds=_WINDOW)),
        ("/models", definition(FULL_INFORMATION, learner=full)),
        ("/models", definition(LABEL_SET, learner={"algorithm": "fenchel-young-multilabel"})),
        ("/models", definition(RANKING, learner={"algorithm": "fenchel-young-ranking"})),
        ("/models", definition(SPARSE, features={"kind": "sparse", "size": 7})),
        ("/models", definition(BY_NAME, features={"kind": "named"})),
        ("/predict", {"model": MODEL, "context": X, "prediction_id": "expired"}),
        ("/predict", {"model": MODEL, "context": X, "prediction_id": "off-expired", "activated": False}),
    ]
    for path, body in bodies:
        await play.post(path, body)
    play.clock.now += _WINDOW + 1.0
    for name in (MODEL, FULL_INFORMATION, LABEL_SET, RANKING):
        await play.post("/predict", {"model": name, "context": X, "prediction_id": "open"})
    await play.post("/predict", {"model": MODEL, "context": X, "prediction_id": "closed"})
    await play.post("/predict", {"model": MODEL, "context": X, "prediction_id": "off", "activated": False})
    await play.post("/feedback", {"prediction_id": f"{MODEL}:closed", "correct": True})


async def _table(play: Play) -> None:
    await _set_up(play)
    for each in REFUSED:
        await play.send(each.method, each.path, content=each.stream(), headers=each.headers)
    for name in (MODEL, FULL_INFORMATION, LABEL_SET, RANKING):
        await play.get(f"/models/{name}")
        await play.send("GET", f"/models/{name}/rounds")


async def _items(play: Play) -> None:
    await _set_up(play)
    sound = [each for each in PREDICTIONS if each.path == "/predict" and each.status != 400]
    predictions = [each.content for each in sound if each.content]
    items = [each.replace(f'"model": "{MODEL}", '.encode(), b"") for each in predictions if MODEL.encode() in each]
    feedback = [each.content for each in FEEDBACK if each.content]
    for start in range(0, max(len(items), len(feedback)), 20):
        some, others = items[start : start + 20], feedback[start : start + 20]
        batch = f'{{"model":"{MODEL}","items":['.encode() + b",".join(some) + b"]}"
        await play.send("POST", "/predict/batch", content=batch)
        await play.send("POST", "/feedback/batch", content=b'{"feedback":[' + b",".join(others) + b"]}")
    for content in feedback:
        await play.send("POST", "/webhooks/feedback", content=content, headers=signed(content, SECRET, NOW + 61))
    batches: list[dict[str, Any]] = [
        {"contexts": [X] * 21},
        {"contexts": [X], "prediction_ids": ["a", "b"]},
        {"contexts": []},
        {"contexts": [X, X], "prediction_ids": ["a", "a"]},
        {"contexts": X},
        {"contexts": [X], "top": 5},
        {"contexts": [X], "include_distribution": 1},
        {"contexts": [X], "colour": 1},
    ]
    for each in batches:
        await play.send("POST", "/predict/batch", {"model": MODEL, **each})
    lists: list[Any] = [[], [1], [{}], [{"prediction_id": f"{MODEL}:open", "correct": True}] * 21, "text", None]
    for given in lists:
        await play.send("POST", "/feedback/batch", {"feedback": given})


async def _worded(play: Play) -> None:
    await _set_up(play)
    for model, context, _ in OF_ANOTHER_KIND:
        await play.send("POST", "/predict", {"model": model, "context": context})
    for changes, _ in WORDED:
        await play.send("POST", "/models", definition("wording-new") | changes)
    for path in ("/predict", "/predict/batch", "/feedback", "/feedback/batch", "/activate", "/models"):
        for content, _ in BROKEN:
            await play.send("POST", path, content=content)
    for path, _ in QUERIES:
        await play.send("GET", path)
    for content_type in ("text/plain", "application/json; charset=latin-1", "application/problem+json", "", "x"):
        await play.send("POST", "/predict", content=b"{}", content_type=content_type)
    for compression in ("gzip", "identity", "br"):
        await play.send("POST", "/predict", content=b"{}", content_encoding=compression)


async def _actions(play: Play) -> None:
    for _, _, changes in test_bad_actions.CREATIONS:
        body = definition_of(play.name("new")) | changes
        await play.send("POST", "/models", {name: value for name, value in body.items() if value is not None})
    await play.post("/models", definition_of(play.name("m")))
    await play.post("/models", definition(play.name("labels")))
    for _, _, changes in test_bad_actions.REQUESTS:
        body = {"model": play.name("m"), "context": {}, "actions": SHOES} | changes
        await play.send("POST", "/predict", {name: value for name, value in body.items() if value is not None})
    await play.post("/predict", {"model": play.name("labels"), "context": X, "actions": SHOES})
    await play.get(f"/models/{play.name('m')}")


def definition_of(name: str) -> dict[str, Any]:
    return with_actions(name)


_TABLE = {"max_body_bytes": MOST_BYTES, "webhook_secrets": SECRET}

CHAPTERS = [
    Chapter("refused", _table, _TABLE),
    Chapter("refused-items", _items, _TABLE | {"max_batch_items": 20}),
    Chapter("refused-words", _worded, _TABLE),
    Chapter("refused-actions", _actions),
]
