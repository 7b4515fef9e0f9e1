"""The experiments of the papers: learners, hyperparameters, streams and numbers of rounds."""

import math
from typing import Any, NamedTuple

from learners.base import Problem

RATES = tuple(2.0**-power for power in range(16, 0, -1))
"""γ from 2^-16 to 2^-1, the grid of Beygelzimer, Orabona and Zhang 2017."""

_BALL = 10.0 * math.sqrt(55.0)
"""D·X of Gaptron, the same on every stream. It gives D = 10 on SynSep, where documents have norms up to √55."""


class Entrant(NamedTuple):
    """An entrant of an experiment: a learner with hyperparameters, one curve of a figure."""

    name: str
    algorithm: str
    hyperparameters: dict[str, Any]
    explores: bool = True  # whether it takes an exploration rate γ; otherwise it is a horizontal line in the figure
    full_information: bool = False  # whether it sees every true label
    in_ball: bool = False  # whether it takes a radius

    def settings(self, problem: Problem, rate: float | None) -> dict[str, Any]:
        """Return the hyperparameters for a problem, at a rate or without one."""
        ball = {"radius": round(_BALL / problem.norm_bound, 6)} if self.in_ball else {}
        return {**self.hyperparameters, **ball, **({} if rate is None else {"exploration": rate})}


class Experiment(NamedTuple):
    """One of the papers' experiments."""

    name: str
    stream: str
    title: str
    source: str
    rounds: int | None  # None: each example of the data set once per pass
    entrants: tuple[Entrant, ...]
    passes: int = 1
    shows_rounds: bool = False  # whether its page has the figure of errors against rounds
    mistakes_of: tuple[Entrant, ...] = ()  # entrants whose mistakes its page shows, as a line against rounds
    shows_regions: bool = False  # whether its page has the figure of the classes' regions in the plane


_HINGE = {"loss": "hinge", "learning_rate": "theorem"}

BANDITRON = Entrant("Banditron", "banditron", {})
PNEWTRON = Entrant("PNewtron", "pnewtron", {"radius": 1.0})
SOBA = Entrant("SOBA", "soba", {})
SOBA_DIAGONAL = Entrant("SOBAdiag", "soba-diagonal", {})
GAPTRON = Entrant("Gaptron, 30η", "gaptron", {**_HINGE, "eta_scale": 30.0}, in_ball=True)
GAPTRON_THEOREM = Entrant("Gaptron", "gaptron", _HINGE, in_ball=True)
SQUARECB = Entrant("SquareCB, default", "squarecb", {}, explores=False)
_KNOWN = {"use_known_label": True}

PERCEPTRONS = Entrant("bandit perceptrons", "bandit-perceptrons", {}, explores=False)
PERCEPTRONS_KNOWN = Entrant("bandit perceptrons, known labels", "bandit-perceptrons", _KNOWN, explores=False)
_FEATURES = "bandit-perceptrons-features"
"""The kernel's feature map, which makes the same mistakes as a support without a limit, in less time."""
KERNEL = Entrant("kernel perceptrons", _FEATURES, {"degree": 40}, explores=False)
KERNEL_KNOWN = Entrant("kernel perceptrons, known labels", _FEATURES, {"degree": 40, **_KNOWN}, explores=False)
PERCEPTRON = Entrant("Perceptron", "perceptron", {}, explores=False, full_information=True)
GAPTRON_FULL = Entrant(
    "Gaptron, full", "gaptron", {**_HINGE, "information": "full"}, explores=False, full_information=True, in_ball=True
)
FENCHEL_YOUNG = Entrant("Fenchel–Young", "fenchel-young", {}, explores=False, full_information=True)

_BANDITS = (BANDITRON, PNEWTRON, SOBA, SOBA_DIAGONAL, GAPTRON, GAPTRON_THEOREM)
_ALL = (*_BANDITS, SQUARECB, PERCEPTRONS, PERCEPTRONS_KNOWN, PERCEPTRON, GAPTRON_FULL, FENCHEL_YOUNG)
_DIAGONAL = tuple(entrant for entrant in _ALL if entrant is not SOBA)
"""All but SOBA, as in the paper's figure. With SynSep's full matrix, the runs take hours, so they have fewer rounds."""
_PERCEPTRONS = PERCEPTRONS, PERCEPTRONS_KNOWN, KERNEL, KERNEL_KNOWN
_GROUPS_PAPER = "after Fakcharoenphol and Prompak 2019, section 5"
_SOBA_PAPER = "Beygelzimer, Orabona and Zhang 2017, section 5, Figure 2"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("synsep", "synsep", "SynSep", _SOBA_PAPER, 1_000_000, _DIAGONAL),
        Experiment("synnonsep", "synnonsep", "SynNonSep", _SOBA_PAPER, 1_000_000, _DIAGONAL, shows_rounds=True),
        Experiment(
            "synsep-soba",
            "synsep",
            "SynSep, SOBA with its full matrix",
            "Beygelzimer, Orabona and Zhang 2017, Algorithm 1",
            100_000,
            (SOBA, SOBA_DIAGONAL, BANDITRON, SQUARECB),
        ),
        Experiment("covertype", "covertype", "Covertype", _SOBA_PAPER, None, _ALL),
        Experiment("reuters4", "reuters4", "Reuters-21578, four topics", _SOBA_PAPER, None, _ALL, passes=4),
        Experiment(
            "reuters4-noisy",
            "reuters4-noisy",
            "Reuters-21578, four topics, 5 % of the labels wrong",
            "The data of the experiment reuters4, which are linearly separable, with noise as in SynNonSep",
            None,
            (BANDITRON, PNEWTRON, SOBA_DIAGONAL, SQUARECB, PERCEPTRON),
            passes=4,
        ),
        Experiment(
            "groups",
            "groups",
            "Nine classes in three groups",
            _GROUPS_PAPER,
            1_000_000,
            (BANDITRON, SQUARECB, *_PERCEPTRONS, PERCEPTRON, GAPTRON_FULL, FENCHEL_YOUNG),
            mistakes_of=(BANDITRON, PERCEPTRONS, KERNEL),
            shows_regions=True,
        ),
        Experiment(
            "groups-doubled",
            "groups-doubled",
            "Nine classes in three groups, with twice the margin",
            _GROUPS_PAPER,
            1_000_000,
            (KERNEL, KERNEL_KNOWN),
        ),
        Experiment(
            "groups-joint",
            "groups-joint",
            "Nine classes in three groups, with one joint sum of squared norms",
            _GROUPS_PAPER,
            1_000_000,
            (KERNEL, KERNEL_KNOWN),
        ),
    )
}
