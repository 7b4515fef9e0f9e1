"""Learners of actions against Vowpal Wabbit's `--cb_explore_adf`, on the same candidates and uniform numbers."""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

from benchmarks.papers.action_stream import ActionStream, closed_share
from benchmarks.papers.catalogues import catalogue
from benchmarks.papers.classes_as_actions import classes_as_actions
from benchmarks.papers.interactions import prices, products
from benchmarks.papers.pages import write_page
from benchmarks.papers.summary import deviation, markdown
from learners.actions.base import ActionProblem
from learners.base import FloatArray, IntArray
from learners.evaluation.action_simulation import simulate_actions
from learners.kernels import row
from learners.mathematics.exploration import draw_one
from learners.registry import ACTION_LEARNERS

GENERATED: dict[str, Callable[[int, int], ActionStream]] = {
    "catalogue": partial(catalogue, clicks=False),
    "catalogue-clicks": partial(catalogue, clicks=True),
    "catalogue-no-ids": partial(catalogue, clicks=True, ids=False),
    "catalogue-changing": partial(catalogue, clicks=True, lifetime=None, spread=1.5, period=500),
    "prices": partial(prices, margin=True),
    "prices-clicks": partial(prices, margin=False),
    "products": products,
}
"""The generated streams: (rounds, seed) to the stream."""

ROUNDS = {
    "pendigits": 5_000,
    **dict.fromkeys(("reuters4", "synnonsep"), 3_000),
    **dict.fromkeys(GENERATED, 4_000),
    "catalogue-changing": 8_000,
    "products": 8_000,
}
"""Rounds on each stream."""

PEERS = {
    "VW mtr": "--epsilon 0.05 --cb_type mtr",
    "VW squarecb": "--squarecb",
    "VW squarecb 100": "--squarecb --gamma_scale 100",
    "VW regcb": "--regcb",
    "VW regcbopt": "--regcbopt --mellowness 0.001",
}
"""Vowpal Wabbit's settings."""

OURS = "fastcb"


class Result(NamedTuple):
    """The mean expected loss, 1 - reward, of each player on a stream, for each seed: (seeds,)."""

    stream: str
    rounds: int
    losses: dict[str, FloatArray]  # by player; `uniform` and `oracle` count as players

    def closed(self, player: str) -> FloatArray:
        """Return the share of the gap between uniform choices and the oracle's that a player closes, (seeds,)."""
        return closed_share(self.losses[player], self.losses["uniform"], self.losses["oracle"])


def play(
    stream: str,
    rounds: int,
    seed: int,
    peers: Iterable[str] = PEERS,
    file: str | None = None,
    algorithm: str = OURS,
    **hyperparameters: Any,
) -> dict[str, float]:
    """Return the mean expected loss of a learner with these hyperparameters, of peers, `uniform` and the oracle."""
    actions = open_actions(stream, rounds, seed, file)
    uniforms = np.random.default_rng([seed, 777]).random(rounds)
    learner = ACTION_LEARNERS[algorithm](problem=ActionProblem(actions.n_features), **hyperparameters)
    choices = {algorithm: simulate_actions(learner, actions.candidates, actions.rewards, uniforms).choices}
    choices |= {name: _choices_of_peer(PEERS[name], actions, uniforms) for name in peers}
    references = {"uniform": actions.uniform_loss, "oracle": actions.oracle_loss}
    return references | {name: actions.loss(positions) for name, positions in choices.items()}


def open_actions(stream: str, rounds: int, seed: int, file: str | None = None) -> ActionStream:
    """Return the first rounds of a stream by name."""
    if stream in GENERATED:
        return GENERATED[stream](rounds, seed)
    return classes_as_actions(stream, file, rounds, seed)


def _choices_of_peer(options: str, actions: ActionStream, uniforms: FloatArray) -> IntArray:
    """Return the choices of Vowpal Wabbit, (n,), with the same features of each candidate."""
    module = importlib.import_module("vowpalwabbit")
    workspace: Any = module.Workspace(f"--cb_explore_adf {options} -b 22 --random_seed 1 --quiet")
    starts, choices = actions.candidates.starts, np.empty(len(uniforms), np.int64)
    for t, uniform in enumerate(uniforms):
        lines = [_text(actions, a) for a in range(starts[t], starts[t + 1])]
        distribution = np.array(workspace.predict(lines))
        choice, _ = draw_one(distribution / distribution.sum(), uniform)
        loss = 1.0 - actions.rewards[starts[t] + choice]
        lines[choice] = f"0:{loss:.9g}:{distribution[choice]:.9g} {lines[choice]}"
        workspace.learn(lines)
        choices[t] = choice
    return choices


def _text(actions: ActionStream, a: int) -> str:
    """Format a candidate as a line without a label."""
    indices, values = row(actions.candidates.vectors, a)
    return "| " + " ".join(f"x{i}:{x:.9g}" for i, x in zip(indices.tolist(), values.tolist(), strict=True))


def results(
    files: Mapping[str, str | None],
    rounds: int | None,
    seeds: int,
    jobs: int,
    peers: Sequence[str] = tuple(PEERS),
    **hyperparameters: Any,
) -> list[Result]:
    """Play streams, given with their files; None for those that need no file.

    Args:
        files: the streams to play.
        rounds: the length of each stream; None: the lengths in `ROUNDS`.
        seeds: runs on each of them.
        jobs: parallel runs.
        peers: names of `PEERS`.
        hyperparameters: settings of the learner; `algorithm` chooses another learner.
    """
    sizes = {name: rounds or ROUNDS[name] for name in files}
    tasks = [
        joblib.delayed(play)(name, size, seed, peers, files[name], **hyperparameters)
        for name, size in sizes.items()
        for seed in range(seeds)
    ]
    played = joblib.Parallel(n_jobs=jobs)(tasks)
    return [
        _result(name, size, played[place * seeds : (place + 1) * seeds])
        for place, (name, size) in enumerate(sizes.items())
    ]


def _result(stream: str, rounds: int, played: Sequence[dict[str, float]]) -> Result:
    return Result(stream, rounds, {player: np.array([one[player] for one in played]) for player in played[0]})


def report(found: Sequence[Result], seeds: int, pages: Path) -> None:
    """Write the page `actions.md`."""
    players = [player for player in found[0].losses if player not in ("uniform", "oracle")]
    introduction = (
        f"Expected loss per round, 1 - reward, mean (standard error) over {seeds} seeds: `fastcb` for actions, and "
        f"Vowpal Wabbit with `--cb_explore_adf` and {len(players) - 1} settings, on the same features, candidates and "
        "uniform numbers; of uniform choices, and of an oracle, which chooses the candidate with the highest expected "
        "reward. In the first streams, each class of a data set is a candidate with the context's features for that "
        "class. In the catalogues, items appear and vanish, or a tenth of their rates change every 500 rounds, and "
        "rewards follow genre, user and two measured numbers. In `prices`, a click depends on the square of "
        "price - budget, and pays the price or 1. In `products`, it depends on the products of a context's numbers and "
        "an item's tags."
    )
    body = _losses_table(found, [*players, "uniform", "oracle"]) + "\n" + _closed_table(found, players)
    write_page(pages, "actions", "Actions", introduction, f"actions --seeds {seeds}", body)


def _losses_table(found: Sequence[Result], players: Sequence[str]) -> str:
    lines = [[one.stream, f"{one.rounds:,}", *(_words(one.losses[player], 4) for player in players)] for one in found]
    return markdown(["stream", "rounds", *players], lines)


def _closed_table(found: Sequence[Result], players: Sequence[str]) -> str:
    lines = [[one.stream, *(_words(one.closed(player), 3) for player in players)] for one in found]
    return "The closed share of the gap between uniform and oracle:\n\n" + markdown(["stream", *players], lines)


def _words(values: FloatArray, digits: int) -> str:
    return f"{values.mean():.{digits}f} ({deviation(values) / np.sqrt(len(values)):.{digits}f})"
