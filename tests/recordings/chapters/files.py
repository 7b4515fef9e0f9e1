"""States and rounds that come and go: snapshots, rollbacks, resets, copies, files of models, imported rounds."""

import json
from typing import Any

from tests.recordings.chapters.teaching import DENSE, LABELS, contexts, teach
from tests.recordings.playing import Chapter, Play

_BYTES = "application/octet-stream"


async def _look(play: Play, name: str) -> None:
    await play.post("/predict/batch", {"model": name, "contexts": contexts(6, 2), "include_distribution": True})


async def _snapshots(play: Play) -> None:
    for algorithm in ("fastcb", "gaptron"):
        name = await play.create(algorithm, labels=LABELS, features=DENSE, learner=algorithm)
        path = f"/models/{name}"
        await play.post(f"{path}/snapshots", {"id": "empty"})
        await teach(play, name, contexts(1, 20))
        for body in ({"id": "first", "note": "a note"}, {"id": "first", "note": "a note"}, {"id": "first"}, {}, {}):
            await play.post(f"{path}/snapshots", body)
        await play.get(f"{path}/snapshots")
        await teach(play, name, contexts(2, 20))
        await _look(play, name)
        for call, body in (("rollback", {"snapshot": "first"}), ("rollback", {"snapshot": "none"}), ("reset", {})):
            for version in ('"stale"', "*"):
                await play.post(f"{path}/{call}", body, if_match=version)
                await _look(play, name)
        await teach(play, name, contexts(3, 5))
        await play.post(f"{path}/rollback", {"snapshot": "empty"}, if_match="*")
        for own in ("first", "empty", "none", "a b"):
            await play.send("DELETE", f"{path}/snapshots/{own}")
        await play.get(f"{path}/snapshots")
        await play.get(f"{path}/changes")
        await play.get(path)
        await play.send("GET", f"{path}/rounds?after=38&limit=5")
        for number in range(20):
            await play.post(f"{path}/snapshots", {"id": f"more-{number}"})
        await play.send("DELETE", f"{path}/snapshots/more-0")


async def _copies(play: Play) -> None:
    definitions: dict[str, dict[str, Any]] = {
        "labels": {"labels": LABELS, "features": DENSE, "learner": "soba-diagonal"},
        "rewards": {"labels": LABELS, "holdout": {"fraction": 0.5, "policy": "uniform"}, "window_seconds": 77.0},
        "names": {"labels": LABELS, "features": {"kind": "named", "size": 32}},
    }
    for of, definition in definitions.items():
        name = await play.create(of, **definition)
        given: list[Any] = contexts(1, 20) if of == "labels" else [{}] * 20
        await teach(play, name, given)
        await play.change(name, {"labels": {"add": ["grey"]}, "retain_rounds": 7})
        await play.change(name, {"labels": {"retire": ["red"]}})
        await play.publish(name)
        await play.post(f"/models/{name}/clone", {"name": play.name(f"{of}-clone")})
        await play.post(f"/models/{name}/clone", {"name": play.name(f"{of}-clone")})
        file = (await play.send("GET", f"/models/{name}/export")).content
        back = play.name(f"{of}-back")
        for content, kind in ((file, _BYTES), (file, _BYTES), (file, "application/json"), (file[:-1], _BYTES)):
            await play.send("POST", f"/models/{back}/import", content=content, content_type=kind)
        await play.send("POST", f"/models/{back}-cut/import", content=file[:-1], content_type=_BYTES)
        for changed in _changed(file):
            await play.send("POST", f"/models/{back}-other/import", content=changed, content_type=_BYTES)
        for copy in (play.name(f"{of}-clone"), back):
            for path in ("", "/rounds", "/changes", "/statistics", "/export"):
                await play.send("GET", f"/models/{copy}{path}")
            await play.post("/predict/batch", {"model": copy, "contexts": given[:2], "include_distribution": True})
            await play.send("DELETE", f"/models/{copy}")
            await play.send("GET", f"/models/{copy}")


def _changed(file: bytes) -> list[bytes]:
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    metadata = header["__metadata__"]
    model = json.loads(metadata["model"])
    bad = model | {"definition": model["definition"] | {"labels": ["a"]}}
    changes = ({"version": "2"}, {"format": "other"}, {"model": json.dumps(bad)}, {"model": "{"})
    headers = [json.dumps(header | {"__metadata__": metadata | change}).encode() for change in changes]
    return [len(each).to_bytes(8, "little") + each + file[8 + size :] for each in headers]


_LOGGED = {"label": "red", "propensity": 0.5, "correct": True}
_IMPORTS: list[tuple[str, int, list[dict[str, Any]]]] = [
    ("a", 0, [_LOGGED, _LOGGED | {"correct": False, "at": "2026-01-02T03:04:05Z"}]),
    ("a", 0, [_LOGGED, _LOGGED | {"correct": False}]),
    ("a", 1, [_LOGGED, _LOGGED | {"label": "blue"}]),
    ("a", 3, [{"true_label": "green"}, {"true_label": "none", "eligible": ["red", "none"]}]),
    ("a", 9, [_LOGGED]),
    ("b", 0, [{"label": "blue", "propensity": 0.25, "reward": 0.75, "holdout": True}]),
    ("b", 1, [{"label": "blue", "propensity": 0.25, "true_label": "red", "eligible": ["blue", "red"]}]),
    ("c", 5, [_LOGGED]),
    ("", 0, [_LOGGED]),
    ("c", -1, [_LOGGED]),
    ("c", 0, []),
    ("c", 0, [_LOGGED, {"label": "pink", "propensity": 0.5, "correct": True}]),
    ("c", 0, [_LOGGED, {"label": "red", "correct": True}]),
    ("c", 0, [_LOGGED, {"label": "red", "propensity": 0.0, "correct": True}]),
    ("c", 0, [_LOGGED, {"label": "red", "propensity": 0.5}]),
    ("c", 0, [_LOGGED, {"true_label": "red", "correct": False}]),
    ("c", 0, [_LOGGED, {"true_label": "red", "holdout": True}]),
    ("c", 0, [_LOGGED, _LOGGED | {"reward": 0.5}]),
    ("c", 0, [_LOGGED | {"eligible": ["blue", "none"]}]),
    ("c", 0, [_LOGGED | {"at": "yesterday"}]),
    ("c", 0, [_LOGGED | {"actions": [{"id": "red", "features": {}}]}]),
    ("c", 0, [_LOGGED | {"context": [1.0]}]),
    ("c", 0, [_LOGGED | {"colour": "red"}]),
    ("c", 0, [_LOGGED] * 5),
]


async def _imports(play: Play) -> None:
    for algorithm in ("fastcb", "gaptron", "perceptron", "fenchel-young-ranking"):
        name = await play.create(algorithm, labels=LABELS, features=DENSE, learner=algorithm)
        for number, (source, offset, rounds) in enumerate(_IMPORTS if algorithm == "fastcb" else _IMPORTS[:7]):
            given = [{"context": contexts(number, 1)[0]} | each for each in rounds]
            await play.post(f"/models/{name}/rounds", {"source": source, "offset": offset, "rounds": given})
        for path in ("/imports", "/rounds", ""):
            await play.send("GET", f"/models/{name}{path}")
        await _look(play, name)


async def _evaluation(play: Play) -> None:
    for algorithm in ("uniform", "fastcb"):
        name = await play.create(algorithm, labels=LABELS, features=DENSE, learner=algorithm)
        for seed, n in ((1, 10), (2, 40), (3, 200)):
            await teach(play, name, contexts(seed, n), "reward" if seed == 2 else "correct")
            await play.wait(3600.0)
            await play.publish(name)
            await play.get(f"/models/{name}/statistics")
            await play.get(f"/models/{name}/evaluation?rounds={n}")
        await play.get(f"/models/{name}/evaluation")
        tag = (await play.send("GET", f"/models/{name}/statistics")).headers["etag"]
        await play.send("GET", f"/models/{name}/statistics", if_none_match=tag)
        await play.send("GET", f"/models/{name}/statistics", if_none_match='"other"')
        for rounds in ("0", "100001", "ten", "5&rounds=6"):
            await play.send("GET", f"/models/{name}/evaluation?rounds={rounds}")


CHAPTERS = [
    Chapter("snapshots", _snapshots),
    Chapter("copies", _copies),
    Chapter("imports", _imports),
    Chapter("evaluation", _evaluation),
]
