"""Learners with other hyperparameters, one chapter for each family: what they learn from the same contexts."""

import functools
from itertools import groupby

from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.recordings.chapters.teaching import DENSE, LABELS, PROBLEM, contexts, form_of, teach
from tests.recordings.playing import Chapter, Play


async def _play(cases: list[Case], play: Play) -> None:
    for number, case in enumerate(cases):
        chosen = case.at(PROBLEM)
        labels, form = LABELS[: chosen.problem.n_labels], form_of(chosen)
        learner = {"algorithm": chosen.algorithm, **case.hyperparameters}
        name = await play.create(str(number), labels=labels, features=DENSE, learner=learner)
        await teach(play, name, contexts(1, 30), form, labels)
        await play.post("/predict/batch", {"model": name, "contexts": contexts(6, 2)})
        await play.send("GET", f"/models/{name}/export")


def _family(case: Case) -> str:
    return case.learner.__module__.split(".")[-2]


_VARIED = sorted((case for case in IMPLEMENTATIONS if case.hyperparameters), key=_family)

CHAPTERS = [
    Chapter(f"hyperparameters-{family}", functools.partial(_play, list(cases)))
    for family, cases in groupby(_VARIED, _family)
]
