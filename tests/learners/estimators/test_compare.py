"""`compare` plays the same rounds with every learner, and its advice follows from the numbers."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from learners.estimators import compare
from learners.estimators.bandit_classifier import BanditClassifier
from learners.estimators.candidates import candidates_of, settings_of
from learners.estimators.compare import Plan, contest
from learners.estimators.inputs import read_table
from learners.estimators.report import Comparison
from learners.estimators.runs import Examples, Run, play
from learners.evaluation.comparison import Played

RNG = np.random.default_rng(8)
X = RNG.normal(size=(300, 3))
Y = np.array(["a", "b", "c"])[np.argmax(X, axis=1)]
EXAMPLES = Examples(read_table(X).contexts, np.argmax(X, axis=1).astype(np.int64), 3, ("a", "b", "c"))


def clock() -> float:
    return 0.0


def result(learners: Any = ("uniform", "fastcb"), seeds: int = 3, **options: Any) -> Comparison:
    return compare(learners, X, Y, seeds=seeds, clock=clock, **options)


def test_the_better_learner_is_recommended() -> None:
    found = result()
    assert [row["name"] for row in found.rows] == ["fastcb", "uniform"]
    assert found.recommended == "fastcb"
    assert found.rows[0]["learner"] == {"algorithm": "fastcb"}
    assert found.rows[1]["error"]["mean"] == pytest.approx(2 / 3, abs=0.05)
    assert found.references.uniform == pytest.approx(2 / 3)
    text = str(found)
    assert "Use fastcb." in text
    assert "(always" in text
    assert "in the last quarter" in text
    assert text == str(result()) != str(result(random_state=1))


def test_an_estimator_is_the_learner_with_its_settings() -> None:
    learners = ["fastcb", {"algorithm": "fastcb", "gap_scale": 4.0}, BanditClassifier("fastcb", norm="none")]
    found = result(learners)
    errors = {row["name"]: row["error"]["mean"] for row in found.rows}
    assert errors["fastcb"] == errors["fastcb norm=none"]
    tied = {row["name"] for row in found.rows if row["tied_with_best"]}
    assert len(tied & {"fastcb", "fastcb norm=none"}) != 1


def test_compilation_is_no_playing_time() -> None:
    ticks = iter(range(100))
    found = compare(["uniform"], X, Y, seeds=3, clock=lambda: float(next(ticks)))
    assert found.spent == (3.0, 3.0)
    assert "Playing took 3.0 s in total; loading or compiling the learners took 3.0 s more, which" in str(found)


def test_a_run_equals_the_estimator() -> None:
    (candidate,) = candidates_of(["fastcb"])
    run = Run(candidate, "measurement", 0, 900, 0)
    one, again = play(run, EXAMPLES, clock), play(run, EXAMPLES, clock)
    assert one == again
    assert play(run._replace(seed=1), EXAMPLES, clock) != one
    assert play(run._replace(stage="selection"), EXAMPLES, clock) != one
    learnt = BanditClassifier(random_state=0).fit(np.tile(X, (3, 1)), np.tile(Y, 3))
    assert one.error == pytest.approx(learnt.mistakes_ / 900, abs=0.05)


def test_settings_are_selected_by_other_runs_than_those_that_measure() -> None:
    runs: list[Run] = []

    def fake(planned: Any, _: Examples) -> list[Played]:
        runs.extend(planned)
        good = [run.candidate.name == "fastcb gap_scale=4.0 learning_rate=64.0" for run in planned]
        return [Played([0, 3, 4], [0, 1 - lucky, 1 - lucky], 1.0, 0.5) for lucky in good]

    found = contest(candidates_of(["fastcb", "uniform"]), EXAMPLES, Plan(seeds=3, tune=True), fake)
    selection = [run for run in runs if run.stage == "selection"]
    assert len(selection) == 2 * (len(settings_of(candidates_of(["fastcb"])[0])) + 1)
    assert {run.seed for run in runs if run.stage == "measurement"} == {0, 1, 2}
    assert [one.name for one in found.entrants] == ["fastcb", "fastcb gap_scale=4.0 learning_rate=64.0", "uniform"]
    assert len({run.key for run in runs}) == len(runs)
    assert found.spent == (len(runs), len(runs) / 2)


def test_a_half_life_is_advised_for_examples_that_rotate() -> None:
    """In order, forgetting follows the boundaries; in random order, nothing can."""
    angles = np.random.default_rng(2).uniform(0.0, 3.0, 6000)
    labels = ((angles - np.arange(6000) / 1500) % 3.0).astype(int)
    rows = np.column_stack([np.cos(angles * 2 * np.pi / 3), np.sin(angles * 2 * np.pi / 3)])
    options: dict[str, Any] = {"X": rows, "y": labels, "seeds": 3, "tune": True, "clock": clock}
    assert compare(["fastcb"], **options, in_order=True).recommended.startswith("fastcb half_life_rounds=")
    assert "half_life" not in compare(["fastcb"], **options).recommended


def test_in_order_seeds_decide_the_draws_alone() -> None:
    """A learner with true labels and no draws has the same mistakes for every seed."""
    options: dict[str, Any] = {"X": X, "y": Y, "seeds": 3, "clock": clock}
    for in_order, same in ((True, True), (False, False)):
        (one,) = compare(["perceptron"], **options, in_order=in_order).entrants
        assert (len({played.mistakes[-1] for played in one.runs}) == 1) == same


def fake_result(errors: dict[str, list[int]], full: tuple[str, ...] = ()) -> Comparison:
    def players(runs: Any, _: Examples) -> list[Played]:
        counts = [errors[run.candidate.name][run.seed] for run in runs]
        return [Played([0, 75, 100], [0, n, n], 1.0, 0.0) for n in counts]

    learners: list[Any] = [{"algorithm": name, "information": "full"} if name in full else name for name in errors]
    named = {f"{name} information=full" if name in full else name: each for name, each in errors.items()}
    errors = named
    return contest(candidates_of(learners), EXAMPLES, Plan(seeds=3), players)


def test_the_default_learner_wins_ties() -> None:
    tied = fake_result({"fastcb": [20, 30, 25], "squarecb": [22, 24, 26]})
    assert (tied.recommended, tied.standings[0].name) == ("fastcb", "squarecb")
    assert "Tied with it within the noise: squarecb." in str(tied)
    assert fake_result({"fastcb": [20, 30, 25], "squarecb": [10, 20, 15]}).recommended == "squarecb"


def test_learners_that_need_the_true_label_are_not_recommended_to_bandits() -> None:
    found = fake_result({"fastcb": [20, 30, 25], "gaptron": [1, 1, 1]}, full=("gaptron",))
    assert found.recommended == "fastcb"
    assert "If feedback has the true label, gaptron information=full has an error of 1.00 %." in str(found)


def test_learners_that_cannot_play_are_left_out() -> None:
    wide = Examples(read_table(np.ones((4, 3)))[0], np.array([0, 1, 0, 1]), 3, ("a", "b"))
    plan = Plan(seeds=1, max_state_bytes=100)
    with pytest.raises(ValueError, match=r"no learner can take these data; soba: .* needs a state of"):
        contest(candidates_of(["soba"]), wide, plan, lambda *_: [])
    found = contest(candidates_of(["soba", "uniform"]), wide, plan, lambda *_: [Played([0, 3, 4], [0, 1, 2], 1.0, 0.0)])
    assert "Left out: soba: " in str(found)
    assert "A single seed gives no intervals" in str(found)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"learners": []}, "at least one"),
        ({"learners": ["fastcb", "fastcb"]}, "fastcb occurs twice"),
        ({"learners": ["fastbc"]}, "did you mean 'fastcb'"),
        ({"learners": [3]}, "must be a name"),
        ({"learners": [{"loss": "hinge"}]}, "must be a name"),
        ({"learners": [{"algorithm": "fastcb", "loss": "hinge"}]}, "does not have the hyperparameter 'loss'"),
        ({"learners": ["adahedge"]}, "no learner can take these data; adahedge: X has a row"),
        ({"seeds": 0}, "seeds: got 0"),
        ({"rounds": 3}, "rounds: got 3; must be an integer from 4"),
        ({"in_order": 1}, "in_order: got 1; must be True or False"),
        ({"random_state": None}, "random_state"),
        ({"random_state": 2**32}, "random_state: got 4294967296; must be an integer from 0 to 4294967295"),
    ],
)
def test_invalid_arguments_are_value_errors(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        result(**arguments)
    with pytest.raises(ValueError, match="inconsistent"):
        compare(["fastcb"], X, Y[1:])


def test_the_plot_has_a_line_for_each_learner() -> None:
    axes = result().plot(Figure().subplots())
    assert {text.get_text() for text in axes.get_legend().get_texts()} >= {"fastcb", "uniform"}
    assert len(axes.get_lines()) == 4
    assert len({band.get_hatch() for band in axes.collections}) == 2
    assert "intervals over 3 seeds" in axes.get_title()
    assert result().plot().figure is not None
