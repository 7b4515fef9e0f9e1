"""Guarantees: a theorem is cited where its conditions hold, and nowhere else."""

import re
from typing import Any

import pytest

from learners.algorithms.first_order.bandit_perceptrons_features import BanditPerceptronsFeatures
from learners.algorithms.first_order.bandit_perceptrons_kernel import BanditPerceptronsKernel
from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.first_order.uniform import Uniform
from learners.algorithms.second_order.soba_low_rank import SobaLowRank
from learners.base import Problem
from learners.registry import ALL_LEARNERS
from tests.learners.implementations import IMPLEMENTATIONS
from tests.learners.mathematics.guarantee_table import BALL, PROBLEM, TABLE, Row

NOTHING = "No theorem covers these settings: "
UNIT_BALL = {BanditPerceptronsKernel, BanditPerceptronsFeatures}
"""Learners that only take a norm bound of 1."""


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.learner.algorithm}-{row.hyperparameters}")
def test_theorem_is_cited_only_where_its_conditions_hold(row: Row) -> None:
    """The text cites exactly this theorem, or these, or says that none applies and which settings have one."""
    text = row.learner(problem=PROBLEM, **row.hyperparameters).guarantee
    found = set(re.findall(r"Theorem [\d.]*\d|Algorithm \d|Appendix [CE](?:\.\d)?|Lemma \d", text))
    assert found == (set(row.theorem.split(" and ")) if row.theorem else set()), text
    assert text.startswith(NOTHING) == (row.theorem is None)
    if row.theorem is None:
        assert "Covered: " in text


def test_every_learner_with_conditions_is_in_the_table() -> None:
    """Only learners with an unconditional guarantee are missing from the table."""
    unconditional = {Uniform, Banditron, *UNIT_BALL}
    assert {row.learner for row in TABLE} | unconditional == set(ALL_LEARNERS.values())


@pytest.mark.parametrize("case", IMPLEMENTATIONS, ids=str)
def test_every_guarantee_states_its_assumptions(case: Any) -> None:
    """A text gives a bound with its assumptions, or names covered settings; every number in it is finite."""
    text = case.at(PROBLEM if case.learner not in UNIT_BALL else Problem(3, 4)).guarantee
    assert text.endswith(".")
    assert ("Covered: " in text) == text.startswith(NOTHING)
    assert "Covered: " in text or "before the next prediction" in text or case.learner is Uniform
    assert not re.search(r"\b(nan|inf|None)\b", text)


def test_tuned_bound_is_stated_for_the_tuned_step_only() -> None:
    """The tuned step gets the theorem's closed form; a smaller step gets the general form."""
    tuned: dict[str, Any] = {"loss": "hinge", "exploration": "theorem", "horizon": 1000, **BALL}
    steps: list[Any] = ["theorem", 1e-4]
    one, two = (Gaptron(problem=PROBLEM, learning_rate=step, **tuned).guarantee for step in steps)
    smaller = Gaptron(problem=PROBLEM, learning_rate="theorem", eta_scale=0.5, **tuned).guarantee
    assert "max{K³X²D²/(K - 1), 2KXD √(T/2)} after T = 1,000 rounds" in one
    assert all("D²/(2η) + γT (K - 1)/K" in text for text in (two, smaller))


def test_kernel_guarantee_states_its_capacity() -> None:
    """The text gives the number of contexts after which nothing is proved, and R of the kernel."""
    one, two = (
        BanditPerceptronsKernel(problem=Problem(3, 4), max_support=77, kernel=kernel).guarantee
        for kernel in ("rational", "linear")
    )
    assert "once 77 contexts (max_support) are kept and another is refused, nothing is proved" in one
    assert "R² = 2" in one
    assert "R = 1" in two


def test_feature_map_guarantee_states_its_degree() -> None:
    """The text gives the degree in use and its kernel error, also where the degree is the default."""
    chosen = BanditPerceptronsFeatures(problem=Problem(3, 4), degree=7).guarantee
    default = BanditPerceptronsFeatures(problem=Problem(3, 2)).guarantee
    assert "monomials of degree at most 7" in chosen
    assert "at most 2^-7)" in chosen
    assert "monomials of degree at most 40" in default


def test_low_rank_guarantee_states_its_capacity() -> None:
    """SOBA's theorem holds until an update no longer fits."""
    text = SobaLowRank(problem=PROBLEM, exploration=0.1, max_updates=55).guarantee
    assert "first accepted round that finds no room among 55 updates" in text
