"""Labels that change: added, retired and asked for again, for learners whose labels grow and for one whose do not."""

from tests.recordings.chapters.teaching import DENSE, LABELS, contexts, teach
from tests.recordings.playing import Chapter, Play


async def _play(play: Play) -> None:
    for algorithm in ("fastcb", "gaptron", "soba-diagonal", "uniform", "soba-newton"):
        name = await play.create(algorithm, labels=LABELS, features=DENSE, learner=algorithm)
        await play.post("/predict", {"model": name, "context": contexts(1, 1)[0], "prediction_id": "before"})
        await teach(play, name, contexts(1, 15))
        for change in (
            {"add": ["grey", "pink"]},
            {"retire": ["red", "grey"]},
            {"add": ["red"]},
            {"add": ["pink"]},
            {"retire": ["red"]},
            {"retire": ["green", "blue", "none"]},
            {"add": ["gold"], "retire": ["blue"]},
        ):
            await play.change(name, {"labels": change})
            await play.post("/predict", {"model": name, "context": contexts(2, 1)[0], "include_distribution": True})
        await play.post("/feedback", {"prediction_id": f"{name}:before", "true_label": "red"})
        for eligible in (["red", "pink"], ["red"], ["pink", "gold"], ["none"]):
            await play.post("/predict", {"model": name, "context": contexts(2, 1)[0], "eligible": eligible})
        await play.post("/predict", {"model": name, "context": contexts(2, 1)[0], "top": 4})
        await teach(play, name, contexts(3, 15), labels=["pink", "green", "none"])
        await play.get(f"/models/{name}")
        await play.send("GET", f"/models/{name}/rounds?after=12&limit=6")
        await play.publish(name)
        await play.get(f"/models/{name}/statistics")
        await play.get(f"/models/{name}/evaluation")


CHAPTERS = [Chapter("labels", _play)]
