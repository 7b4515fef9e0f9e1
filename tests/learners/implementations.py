"""The implementations that every contract test runs on. To add a learner, add a line here."""

import dataclasses
from typing import Any, NamedTuple

from learners.base import AnyLearner, Problem
from learners.registry import ALL_LEARNERS as L


class Case(NamedTuple):
    learner: type[Any]
    hyperparameters: dict[str, Any]
    least_exploration: float = 0.0  # γ: every decision gives each label at least γ/K
    n_labels: int | None = None  # the number of labels, for learners whose labels have fixed roles

    def at(self, problem: Problem) -> AnyLearner:
        if self.n_labels is not None:
            problem = dataclasses.replace(problem, n_labels=self.n_labels)
        learner: AnyLearner = self.learner(problem=problem, **self.hyperparameters)
        return learner

    def __str__(self) -> str:
        return "-".join([self.learner.algorithm, *(str(value) for value in self.hyperparameters.values())])


PAIRS = {"sets": ("1100", "0011", "1010", "0101")}  # with every set, its complement
THEOREM = {"learning_rate": "theorem", "radius": 2.0}

IMPLEMENTATIONS = [
    Case(L["fastcb"], {}),
    Case(L["fastcb"], {"gap_scale": 0.5, "least_exploration": 0.2, "learning_rate": 6.0}, 0.2),
    Case(L["fastcb"], {"max_features": 3, "restart_risk": 0.1}),
    Case(L["squarecb"], {}),
    Case(L["squarecb"], {"gap_scale": 0.5, "least_exploration": 0.2, "learning_rate": 0.3}, 0.2),
    Case(L["gaptron"], {}),
    Case(L["gaptron"], {"loss": "hinge"}),
    Case(L["gaptron"], {"loss": "smooth_hinge", "least_exploration": 0.2, "delayed_update": "recompute"}, 0.2),
    Case(
        L["gaptron"], {"loss": "logistic", "exploration": 0.3, "learning_rate": 0.5, "delayed_update": "recompute"}, 0.3
    ),
    Case(L["gaptron"], {"loss": "hinge", "exploration": 0.1, "eta_scale": 30.0, "radius": 0.5}, 0.1),
    Case(L["gaptron"], {"loss": "hinge", "exploration": 0.1, "eta_scale": 30.0, **THEOREM}, 0.1),
    Case(L["gaptron"], {"loss": "logistic", "exploration": "theorem", **THEOREM}),
    Case(L["gaptron"], {"loss": "logistic", "exploration": 0.0, **THEOREM}),
    Case(L["gaptron"], {"loss": "smooth_hinge", "exploration": "theorem", "horizon": 100_000, **THEOREM}),
    Case(L["gaptron"], {"loss": "logistic", "information": "full"}),
    Case(L["gaptron"], {"loss": "hinge", "information": "full", "radius": None}),
    Case(
        L["gaptron"], {"loss": "smooth_hinge", "information": "full", "delayed_update": "recompute", "eta_scale": 10.0}
    ),
    Case(L["soba"], {}),
    Case(L["soba"], {"exploration": 0.05}, 0.05),
    Case(L["soba"], {"exploration": "adaptive"}),
    Case(L["soba"], {"exploration": "theorem", "horizon": 10**6, "comparator_bound": 0.5}),
    Case(L["soba"], {"exploration": 0.3, "regularization": 0.5}, 0.3),
    Case(L["soba-low-rank"], {"max_updates": 200, "max_nonzeros": 1000}),
    Case(L["soba-low-rank"], {"exploration": "adaptive", "max_updates": 50, "max_nonzeros": 1000}),
    Case(L["soba-low-rank"], {"exploration": 0.05, "regularization": 0.5, "max_updates": 50, "max_nonzeros": 40}, 0.05),
    Case(L["soba-diagonal"], {}),
    Case(L["soba-diagonal"], {"exploration": "adaptive"}),
    Case(L["soba-diagonal"], {"exploration": 0.3, "regularization": 0.5}, 0.3),
    Case(L["banditron"], {}),
    Case(L["banditron"], {"delayed_update": "recompute"}),
    Case(L["banditron"], {"exploration": "theorem", "least_exploration": 0.1}, 0.1),
    Case(L["perceptron"], {}),
    Case(L["pnewtron"], {}),
    Case(L["pnewtron"], {"delayed_update": "recompute", "radius": 0.5}),
    Case(L["pnewtron"], {"exploration": 0.2, "projection": "none"}, 0.2),
    Case(L["newtron"], {}),
    Case(L["newtron"], {"delayed_update": "recompute"}),
    Case(L["newtron"], {"exploration": 0.2, "alpha": 3.0, "beta": 0.5, "radius": 2.0}, 0.2),
    Case(L["soba-newton"], {"exploration": 0.3}, 0.3),
    Case(L["soba-newton"], {"exploration": 0.3, "beta": 0.05, "epsilon": 1.0, "eta": 1e-6}, 0.3),
    Case(L["bandit-perceptrons"], {}),
    Case(L["bandit-perceptrons"], {"use_known_label": True}),
    Case(L["bandit-perceptrons-kernel"], {}),
    Case(L["bandit-perceptrons-kernel"], {"max_support": 20, "use_known_label": True}),
    Case(L["bandit-perceptrons-features"], {"degree": 3}),
    Case(L["bandit-perceptrons-features"], {"degree": 2, "use_known_label": True}),
    Case(L["epsilon-greedy-ridge"], {}),
    Case(L["epsilon-greedy-ridge"], {"exploration": "theorem", "least_exploration": 0.1}, 0.1),
    Case(L["adahedge"], {}, n_labels=3),
    Case(L["fenchel-young"], {}),
    Case(L["fenchel-young"], {"delayed_update": "recompute"}),
    Case(L["fenchel-young"], {"delayed_update": "recompute", "learning_rate": "parameter-free"}),
    Case(L["fenchel-young"], {"learning_rate": "adaptive", "radius": 3.0}),
    Case(L["fenchel-young"], {"learning_rate": "parameter-free"}),
    Case(L["fenchel-young"], {"learning_rate": "high-probability"}),
    Case(L["fenchel-young"], {"learning_rate": 0.5, "radius": 1.0}),
    Case(L["folklore"], {}),
    Case(L["folklore"], {"delayed_update": "recompute"}),
    Case(L["folklore"], {"comparator_bound": 0.5}),
    Case(L["folklore-bandit"], {}, 0.1),
    Case(L["folklore-bandit"], {"delayed_update": "recompute"}, 0.1),
    Case(L["folklore-bandit"], {"exploration": "theorem", "horizon": 10**7, "comparator_bound": 0.1}),
    Case(L["folklore-bandit"], {"exploration": "anytime", "comparator_bound": 1e-3}),
    Case(L["bandit-reduction"], {}, 0.1),
    Case(L["bandit-reduction"], {"base_settings": {"learning_rate": 3.0, "delayed_update": "recompute"}}, 0.1),
    Case(L["bandit-reduction"], {"base": "perceptron", "exploration": 0.2}, 0.2),
    Case(
        L["bandit-reduction"],
        {"base": "fenchel-young-ordinal", "base_settings": {"delayed_update": "recompute"}, "exploration": 0.2},
        0.2,
        n_labels=4,
    ),
    Case(L["bandit-reduction"], {"base": "adaboost-olm", "base_settings": {"weak_learners": 2}}, 0.1),
    Case(L["bandit-reduction"], {"base": "adahedge"}, 0.1, n_labels=3),
    Case(L["bandit-reduction"], {"base": "gaptron", "exploration": "anytime", "comparator_bound": 1e-3}),
    Case(L["bandit-reduction"], {"base": "folklore", "exploration": 0.2}, 0.2),
    Case(L["adaboost-olm"], {}),
    Case(L["adaboost-olm"], {"delayed_update": "recompute"}),
    Case(L["adaboost-olm"], {"weak_learners": 2, "horizon": 1000}),
    Case(L["adaboost-olm"], {"weak_learners": 2, "weak_learner": "few-features", "features_per_learner": 1}),
    Case(L["adaboost-olm"], {"weak_learners": 3, "weak_learner": "cost-regression", "features_seed": 2**53}),
    Case(L["adaboost-olm"], {"weak_learners": 2, "weak_learner": "folklore", "features_per_learner": 1}),
    Case(L["uniform"], {}, 1.0),
    Case(L["fenchel-young-ordinal"], {}, n_labels=4),
    Case(L["fenchel-young-ordinal"], {"delayed_update": "recompute"}, n_labels=4),
    Case(L["fenchel-young-ordinal"], {"learning_rate": "parameter-free", "regularization": 3.0}, n_labels=4),
    Case(L["fenchel-young-multilabel"], {}),
    Case(L["fenchel-young-multilabel"], {"delayed_update": "recompute"}),
    Case(L["fenchel-young-multilabel"], {"learning_rate": "high-probability", "regularization": 3.0}),
    Case(L["fenchel-young-multilabel"], {"learning_rate": "parameter-free"}),
    Case(L["fenchel-young-multilabel"], {"set_size": 2}, n_labels=4),
    Case(L["fenchel-young-multilabel"], {"set_size": 2, "delayed_update": "recompute"}, n_labels=4),
    Case(L["fenchel-young-multilabel"], PAIRS, n_labels=4),
    Case(L["fenchel-young-multilabel"], PAIRS | {"delayed_update": "recompute", "regularization": 9.0}, n_labels=4),
    Case(L["fenchel-young-multilabel"], PAIRS | {"loss": "crf"}, n_labels=4),
    Case(L["fenchel-young-multilabel"], PAIRS | {"loss": "crf", "delayed_update": "recompute"}, n_labels=4),
    Case(L["fenchel-young-multilabel"], PAIRS | {"loss": "crf", "learning_rate": "parameter-free"}, n_labels=4),
    Case(L["fenchel-young-ranking"], {}),
    Case(L["fenchel-young-ranking"], {"delayed_update": "recompute"}),
    Case(L["fenchel-young-ranking"], {"learning_rate": "adaptive", "radius": 3.0}),
    Case(L["fenchel-young-ranking"], {"polytope": "birkhoff"}),
    Case(L["fenchel-young-ranking"], {"polytope": "birkhoff", "sharpness": 1.5, "learning_rate": 0.5, "radius": 1.0}),
]
