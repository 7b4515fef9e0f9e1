"""Learners of actions against Vowpal Wabbit's `--cb_explore_adf`, on the same candidates and uniform numbers."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

from benchmarks.papers.catalogues import ActionStream, catalogue, classes_as_actions
from benchmarks.papers.pages import write_page
from benchmarks.papers.summary import deviation, markdown
from learners.actions.base import ActionProblem
from learners.base import FloatArray
from learners.evaluation.action_simulation import simulate_actions
from learners.kernels import row
from learners.mathematics.exploration import draw_one
from learners.registry import ACTION_LEARNERS

ROUNDS = {"pendigits": 5_000, "reuters4": 3_000, "synnonsep": 3_000}
"""Rounds of the streams whose classes are actions; those of a catalogue are `CATALOGUE_ROUNDS`."""

CATALOGUE_ROUNDS = 4_000

CATALOGUES: dict[str, Callable[[int, int], ActionStream]] = {
    "catalogue": partial(catalogue, clicks=False, shared_only=False),
    "catalogue, clicks": partial(catalogue, clicks=True, shared_only=False),
    "catalogue, no ids": partial(catalogue, clicks=True, shared_only=True),
}

PEERS = {
    "VW mtr": "--epsilon 0.05 --cb_type mtr",
    "VW squarecb": "--squarecb",
    "VW squarecb 100": "--squarecb --gamma_scale 100",
    "VW regcb": "--regcb",
}
"""Vowpal Wabbit's settings."""

OURS = "fastcb"


class Result(NamedTuple):
    """The mean loss, 1 - reward, of each player on a stream, for each seed: (seeds,)."""

    stream: str
    rounds: int
    losses: dict[str, FloatArray]


def play(stream: str, file: str | None, rounds: int, seed: int) -> dict[str, float]:
    """Return the mean loss of each player."""
    if stream in CATALOGUES:
        actions = CATALOGUES[stream](rounds, seed)
    else:
        actions = classes_as_actions(stream, file, rounds, seed)
    uniforms = np.random.default_rng([seed, 777]).random(rounds)
    learner = ACTION_LEARNERS[OURS](problem=ActionProblem(actions.n_features))
    ours = simulate_actions(learner, actions.candidates, actions.rewards, uniforms).rewards
    losses = {OURS: 1.0 - float(ours.mean())}
    return losses | {name: play_peer(options, actions, uniforms) for name, options in PEERS.items()}


def play_peer(options: str, actions: ActionStream, uniforms: FloatArray) -> float:
    """Return the mean loss of Vowpal Wabbit, with the same features of each candidate."""
    module = importlib.import_module("vowpalwabbit")
    workspace: Any = module.Workspace(f"--cb_explore_adf {options} -b 22 --random_seed 1 --quiet")
    starts, total = actions.candidates.starts, 0.0
    for t, uniform in enumerate(uniforms):
        lines = [_text(actions, a) for a in range(starts[t], starts[t + 1])]
        distribution = np.array(workspace.predict(lines))
        choice, _ = draw_one(distribution / distribution.sum(), uniform)
        loss = 1.0 - actions.rewards[starts[t] + choice]
        lines[choice] = f"0:{loss:.9g}:{distribution[choice]:.9g} {lines[choice]}"
        workspace.learn(lines)
        total += loss
    return total / len(uniforms)


def _text(actions: ActionStream, a: int) -> str:
    """Format a candidate as a line without a label."""
    indices, values = row(actions.candidates.vectors, a)
    return "| " + " ".join(f"x{i}:{x:.9g}" for i, x in zip(indices.tolist(), values.tolist(), strict=True))


def results(files: Mapping[str, str | None], rounds: int | None, seeds: int, jobs: int) -> list[Result]:
    """Play all streams: the catalogues, and those with a file or without need of one."""
    sizes = {name: ROUNDS[name] for name in files} | dict.fromkeys(CATALOGUES, CATALOGUE_ROUNDS)
    tasks = [(name, files.get(name), rounds or size, seed) for name, size in sizes.items() for seed in range(seeds)]
    played = joblib.Parallel(n_jobs=jobs)(joblib.delayed(play)(*task) for task in tasks)
    found = []
    for position, (name, size) in enumerate(sizes.items()):
        mine = played[position * seeds : (position + 1) * seeds]
        losses = {player: np.array([one[player] for one in mine]) for player in mine[0]}
        found.append(Result(name, rounds or size, losses))
    return found


def report(found: Sequence[Result], seeds: int, pages: Path) -> None:
    """Write the page `actions.md`."""
    players = [OURS, *PEERS]
    lines = [[one.stream, f"{one.rounds:,}", *(_words(one.losses[player]) for player in players)] for one in found]
    introduction = (
        f"Loss per round, 1 - reward, mean (standard error) over {seeds} seeds: `fastcb` for actions, and "
        "Vowpal Wabbit with `--cb_explore_adf` and four settings, on the same features, candidates and uniform "
        "numbers. In the first streams, each class of a data set is a candidate with the context's features for that "
        "class. In the catalogues, items appear and vanish, and their rewards follow genre, user and two measured "
        "numbers; even the best choices have losses there."
    )
    write_page(
        pages,
        "actions",
        "Actions",
        introduction,
        f"actions --seeds {seeds}",
        markdown(["stream", "rounds", *players], lines),
    )


def _words(values: FloatArray) -> str:
    return f"{values.mean():.4f} ({deviation(values) / np.sqrt(len(values)):.4f})"
