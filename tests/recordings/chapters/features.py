"""Every kind of features, with three learners that differ."""

import functools
from typing import Any

from tests.recordings.chapters.teaching import contexts, teach
from tests.recordings.playing import Chapter, Play

_FIELDS: dict[str, Any] = {
    "user.age": {"type": "number", "minimum": 0, "maximum": 120, "required": True},
    "user.country": {"type": "string", "values": ["FR", "DE"]},
    "user.premium": {"type": "boolean"},
    "tags": {"type": "strings", "values": ["new", "mobile"]},
}
_SPARSE = [{"indices": [n % 7, 7 + n % 3], "values": [0.25 + n / 40, -0.5]} for n in range(30)]
_NAMED = [
    {"user": {"age": 20 + n, "country": ["FR", "DE"][n % 2], "premium": n % 3 == 0}, "tags": ["new", "mobile"][: n % 3]}
    for n in range(30)
]
_PLAIN = [{"hour": n % 24, "device": "phone" if n % 2 else "desk", "items": ["a", "b"][: n % 3]} for n in range(30)]
_SMALL, _LARGE = contexts(8, 30), [[4 * x for x in row] for row in contexts(9, 30)]

_KINDS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "default": ({"kind": "dense", "size": 3}, _SMALL),
    "none": ({"kind": "dense", "size": 3, "norm": "none", "intercept": True}, _LARGE),
    "unit": ({"kind": "dense", "size": 3, "norm": "unit", "intercept": True}, _LARGE),
    "scale": ({"kind": "dense", "size": 3, "norm": "scale", "norm_bound": 2.0, "intercept": False}, _LARGE),
    "reject": (
        {"kind": "dense", "size": 3, "norm": "reject", "norm_bound": 3.0, "precision": "float32"},
        _LARGE[:5] + _SMALL,
    ),
    "sparse": ({"kind": "sparse", "size": 10}, _SPARSE),
    "sparse32": ({"kind": "sparse", "size": 10, "norm": "unit", "precision": "float32", "intercept": True}, _SPARSE),
    "named": ({"kind": "named", "size": 64}, _PLAIN),
    "declared": (
        {"kind": "named", "size": 64, "fields": _FIELDS, "closed": True, "interactions": [["user", "tags"]]},
        _NAMED,
    ),
    "absent": ({"kind": "none"}, [{}] * 30),
}
_WRONG: list[Any] = [
    None, [], [0.1, 0.2, 0.3, 0.4], [1e308, 1e308, 1e308], {"indices": [99], "values": [1.0]}, {"user": {"age": 200}},
    {"indices": [1, 1], "values": [1.0, 2.0]}, {"user": {"age": "old"}}, {"user": {"country": "FR"}}, {"hat": 1},
    {"user": {"age": 3, "country": "IT"}}, {"a.b": 1, "a": {"b": 2}}, {"tags": [1]}, {"x": {}}, "text", 3,
]  # fmt: skip


async def _play(algorithm: str, play: Play) -> None:
    for kind, (features, given) in _KINDS.items():
        name = play.name(kind)
        definition = {"name": name, "labels": ["red", "green", "blue"], "features": features, "learner": algorithm}
        if (await play.send("POST", "/models", definition)).status_code != 201:  # a kernel needs contexts of norm 1
            continue
        await play.post("/predict", {"model": name, "context": given[0], "include_distribution": True})
        await teach(play, name, given, labels=["red", "green", "blue"])
        look = {"model": name, "contexts": [*given[-2:], *_WRONG], "include_distribution": True}
        await play.post("/predict/batch", look)
        await play.send("GET", f"/models/{name}/rounds?after=5&limit=4")
        await play.post(f"/models/{name}/explain", {"context": given[7]})
        await play.send("GET", f"/models/{name}/export")


CHAPTERS = [
    Chapter(f"features-{algorithm}", functools.partial(_play, algorithm))
    for algorithm in ("fastcb", "gaptron", "bandit-perceptrons-kernel")
]
