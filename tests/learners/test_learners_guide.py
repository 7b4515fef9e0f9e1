"""`docs/reference/learners.md` covers every learner, and its names, settings, guarantees and memory are true."""

import json
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from learners.base import Problem
from learners.layouts import state_bytes
from learners.registry import ALL_LEARNERS

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/reference/learners.md").read_text(encoding="utf-8")
TABLES = ("## Sources", "## Guarantees", "## When to choose it", "## Eligible labels")
ANSWERS = {"label", "level", "label-set", "ranking"}
API_NAMES = {"actions", "labels", "learner", "features.norm", "features.intercept", "none", "true_label", "true_labels"}
VALUES = {"scale", "unit", "reject", "as_of_prediction", "recompute", "crf", "oracle", "wrong-truth"}
SETTINGS = re.compile(r"`(\{[^`]*\})`")
EACH_LEARNER = pytest.mark.parametrize("algorithm", sorted(ALL_LEARNERS))


@cache
def rows(heading: str) -> dict[str, list[str]]:
    section = GUIDE[GUIDE.index(f"\n{heading}") :].split("\n## ")[1]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    return {first.strip(" `"): [each.strip() for each in rest] for first, *rest in cells}


def problem_for(algorithm: str) -> Problem:
    return Problem(n_labels=3 if algorithm == "adahedge" else 10, n_features=200)


def build(algorithm: str, settings: dict[str, Any]) -> Any:
    return ALL_LEARNERS[algorithm](problem=problem_for(algorithm), **settings)


def settings_in(text: str) -> list[dict[str, Any]]:
    return [json.loads(found) for found in SETTINGS.findall(text)]


def hyperparameters_of(algorithm: str) -> set[str]:
    return {field.name for field in fields(ALL_LEARNERS[algorithm])} - {"problem"}


@pytest.mark.parametrize("heading", TABLES)
def test_every_table_has_every_learner(heading: str) -> None:
    assert sorted(rows(heading)) == sorted(ALL_LEARNERS)


def test_every_name_exists() -> None:
    known = set().union(ALL_LEARNERS, ANSWERS, API_NAMES, VALUES, *map(hyperparameters_of, ALL_LEARNERS))
    spans = set(re.findall(r"`([a-z][a-z0-9._-]*)`", GUIDE))
    assert spans <= known


@EACH_LEARNER
def test_the_tuning_names_hyperparameters_of_the_learner(algorithm: str) -> None:
    tuning = rows(TABLES[2])[algorithm][1]
    spans = set(re.findall(r"`([a-z][a-z_-]*)`", tuning))
    assert spans <= hyperparameters_of(algorithm) | set(ALL_LEARNERS)


@pytest.mark.parametrize("heading", TABLES)
@EACH_LEARNER
def test_the_settings_are_accepted(algorithm: str, heading: str) -> None:
    for settings in settings_in(" ".join(rows(heading)[algorithm])):
        build(algorithm, settings)


@EACH_LEARNER
def test_the_answer_and_the_feedback_are_those_of_the_learner(algorithm: str) -> None:
    learner, row = build(algorithm, {}), rows(TABLES[0])[algorithm]
    assert row[1] == learner.answer
    assert row[2].startswith("true label" if learner.needs_true_label else "bit")


@EACH_LEARNER
def test_a_guarantee_is_claimed_only_where_one_is_proved(algorithm: str) -> None:
    proved, covered = rows(TABLES[1])[algorithm]
    guarantee = build(algorithm, {}).guarantee
    assert proved.startswith("None") == guarantee.startswith("No theorem")
    for source in re.findall(r"\((?:Theorem|Lemma|Algorithm|Appendix) [\dA-Z.]*\d?\)", proved):
        assert source.strip("()") in guarantee
    for settings in settings_in(covered):
        assert not build(algorithm, settings).guarantee.startswith("No theorem"), settings


@EACH_LEARNER
def test_the_memory_is_that_of_the_state(algorithm: str) -> None:
    learner = build(algorithm, {})
    formula = rows(TABLES[0])[algorithm][5].split(";")[0].replace("·", "*").replace("²", "**2")
    symbols = {"K": learner.problem.n_labels, "d": learner.problem.n_features}
    symbols |= {"features": learner.features} if hasattr(learner, "features") else {}
    sizes = {name: getattr(learner, name) for name in hyperparameters_of(algorithm)}
    stated = eval(formula, {"__builtins__": {}}, sizes | symbols)
    assert state_bytes(learner) / 8 == pytest.approx(stated, rel=0.05, abs=10)


@EACH_LEARNER
def test_the_abilities_are_those_of_the_learner(algorithm: str) -> None:
    cls, (among, rewards, added) = ALL_LEARNERS[algorithm], rows(TABLES[3])[algorithm]
    assert (among == "refused") == (cls.answer in {"label-set", "ranking"})
    assert (rewards == "yes", added == "yes") == (cls.accepts_rewards, cls.labels_grow)


def test_the_guide_links_to_what_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)", GUIDE)
    assert "../../openapi.md" in links
    assert all((ROOT / "docs/reference" / link).exists() for link in links)
