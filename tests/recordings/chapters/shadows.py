"""Shadows: added, folded, compared, replaced, promoted and deleted."""

from tests.recordings.chapters.teaching import DENSE, LABELS, contexts, teach
from tests.recordings.playing import Chapter, Play


async def _play(play: Play) -> None:
    for algorithm, rivals in (("fastcb", ("squarecb", "uniform", "gaptron")), ("gaptron", ("soba", "banditron"))):
        name = await play.create(algorithm, labels=LABELS, features=DENSE, learner=algorithm)
        path = f"/models/{name}/shadows"
        await teach(play, name, contexts(1, 30))
        for rival in rivals:
            await play.send("PUT", f"{path}/{rival}", {"learner": rival})
            await play.get(f"{path}/{rival}")
        await play.send("PUT", f"{path}/{rivals[0]}", {"learner": {"algorithm": rivals[0]}})
        await play.send("PUT", f"{path}/truth", {"learner": "perceptron"})
        await teach(play, name, contexts(2, 60), "reward" if algorithm == "fastcb" else "correct")
        await play.get(path)
        await play.fold_shadows()
        await play.get(path)
        await play.change(name, {"labels": {"add": ["grey"]}})
        await teach(play, name, contexts(3, 40))
        await play.fold_shadows()
        for each in (*rivals, "nobody"):
            await play.get(f"{path}/{each}")
        for shadow, version in (("nobody", "*"), (rivals[0], '"stale"'), (rivals[0], "*"), (rivals[0], "*")):
            await play.post(f"/models/{name}/promote", {"shadow": shadow}, if_match=version)
        for each in (rivals[0], rivals[1], rivals[1]):
            await play.send("DELETE", f"{path}/{each}")
        look = {"model": name, "contexts": contexts(6, 2), "include_distribution": True}
        await play.post("/predict/batch", look)
        await teach(play, name, contexts(4, 10))
        await play.post("/predict/batch", look)
        for end in ("", "/changes", "/shadows", "/snapshots", "/rounds?after=125&limit=9"):
            await play.send("GET", f"/models/{name}{end}")
        for number in range(9):
            await play.send("PUT", f"{path}/more-{number}", {"learner": "uniform"})


async def _actions(play: Play) -> None:
    features = {"kind": "dense", "size": 1}
    name = await play.create("m", actions={"features": features, "log_actions": "all"})
    for rival in ("epsilon-greedy-ridge", "gaptron"):
        await play.send("PUT", f"/models/{name}/shadows/{rival}", {"learner": rival})
    given = [{"id": each, "features": [n / 4]} for n, each in enumerate(LABELS)]
    items = [{"actions": given[n % 2 :]} for n in range(30)]
    answers = (await play.post("/predict/batch", {"model": name, "items": items}))["predictions"]
    judged = [{"prediction_id": each["prediction_id"], "correct": each["label"] == "none"} for each in answers]
    await play.post("/feedback/batch", {"feedback": judged})
    await play.fold_shadows()
    await play.get(f"/models/{name}/shadows")
    await play.post(f"/models/{name}/promote", {"shadow": "epsilon-greedy-ridge"}, if_match="*")
    await play.post("/predict/batch", {"model": name, "items": items[:2], "include_distribution": True})


CHAPTERS = [Chapter("shadows", _play), Chapter("shadows-actions", _actions)]
