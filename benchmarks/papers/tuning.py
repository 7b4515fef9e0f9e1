"""The settings to try in addition to the defaults, for each learner and for Vowpal Wabbit.

Every combination of a row's values is one setting. The settings are few on purpose, as many as a careful user could try
in an afternoon, and the same for every data set.
"""

import itertools
from typing import Any, NamedTuple

from benchmarks.papers.vowpal_wabbit import ALGORITHM

_RATES = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1]
_LOSSES = ["logistic", "hinge", "smooth_hinge"]


class Row(NamedTuple):
    """A learner and the settings to try."""

    name: str
    algorithm: str
    fixed: dict[str, Any]  # changes to the defaults in every setting
    grids: list[dict[str, list[Any]]]
    full_information: bool = False

    def settings(self) -> list[dict[str, Any]]:
        """Return the hyperparameters of each setting; the first has the defaults."""
        products = [
            dict(zip(grid, values, strict=True)) for grid in self.grids for values in itertools.product(*grid.values())
        ]
        return [self.fixed, *({**self.fixed, **product} for product in products)]


def _row(algorithm: str, *grids: dict[str, list[Any]], full_information: bool = False) -> Row:
    return Row(algorithm, algorithm, {}, list(grids), full_information)


TABLE = (
    _row("fastcb", {"gap_scale": [4.0, 8.0, 16.0], "learning_rate": [16.0, 32.0, 64.0]}),
    _row("squarecb", {"gap_scale": [2.0, 4.0, 8.0, 16.0], "learning_rate": [0.5, 1.5, 3.0]}),
    _row(
        "gaptron",
        {"loss": _LOSSES, "exploration": ["anytime", 0.005, 0.02, 0.1], "eta_scale": [0.3, 1.0, 3.0]},
        {
            "learning_rate": ["theorem"],
            "loss": _LOSSES,
            "exploration": [0.02, 0.1],
            "eta_scale": [30.0, 300.0],
            "radius": [100.0],
        },
    ),
    _row("soba", {"exploration": ["adaptive", 0.02, 0.1]}),
    _row("soba-low-rank", {"exploration": [0.02, 0.1], "regularization": [0.1, 1.0]}),
    _row("soba-diagonal", {"exploration": ["anytime", "adaptive", *_RATES], "regularization": [0.1, 1.0]}),
    _row("soba-newton", {"exploration": [0.02, 0.1], "radius": [1.0, 10.0], "beta": [0.1], "epsilon": [1.0]}),
    _row("newtron", {"exploration": [0.02, 0.1]}),
    _row("pnewtron", {"exploration": ["anytime", *_RATES], "radius": [1.0, 10.0, 30.0]}),
    _row("banditron", {"exploration": ["theorem", *_RATES]}),
    _row("bandit-perceptrons", {"use_known_label": [True]}),
    _row(
        "bandit-perceptrons-kernel",
        {"use_known_label": [True]},
        {"max_support": [4000], "use_known_label": [False, True]},
    ),
    _row("bandit-perceptrons-features", {"use_known_label": [True]}),
    _row("epsilon-greedy-ridge", {"exploration": ["theorem", 0.005, 0.02, 0.1], "regularization": [0.1]}),
    _row("folklore-bandit", {"exploration": ["anytime", 0.05], "comparator_bound": [100.0]}),
    _row("uniform"),
    Row(
        "gaptron, full",
        "gaptron",
        {"information": "full"},
        [
            {"loss": _LOSSES, "eta_scale": [0.3, 1.0, 3.0]},
            {"loss": _LOSSES, "learning_rate": ["theorem"], "eta_scale": [1.0, 10.0, 100.0]},
        ],
        full_information=True,
    ),
    _row("perceptron", full_information=True),
    _row(
        "fenchel-young",
        {"learning_rate": ["adaptive"], "radius": [10.0, 100.0]},
        {"learning_rate": ["parameter-free", 0.1, 1.0, 10.0]},
        full_information=True,
    ),
    _row("folklore", {"comparator_bound": [100.0]}, full_information=True),
    _row("adaboost-olm", {"weak_learners": [1]}, full_information=True),
)
"""Every registered learner that answers with one of several unordered labels, except `adahedge`, which may abstain, and
`bandit-reduction`, whose page compares its bases."""

_COSTS = ["0/1", "-1/0"]
_METHODS = ["--epsilon 0.05 --cb_type mtr", "--epsilon 0.05 --cb_type dr", "--squarecb", "--cover 4"]

PEER = Row(
    "Vowpal Wabbit",
    ALGORITHM,
    {},
    [
        {
            "options": [
                *(*_METHODS, "--epsilon 0.02 --cb_type mtr", "--squarecb --gamma_scale 100"),
                *("--cb_force_legacy --cb_type dm", "--cb_force_legacy --cb_type dr --cover 4"),
            ],
            "costs": _COSTS,
        }
    ],
)
"""Plain `--cb_explore K` is the default; the others are its authors' recommendations, with both cost encodings."""

PEERS = PEER, Row("Vowpal Wabbit, default parameters", ALGORITHM, {}, [{"options": _METHODS, "costs": _COSTS}])
"""The second row has the methods at their default parameters only: the peer of a learner at its defaults."""
