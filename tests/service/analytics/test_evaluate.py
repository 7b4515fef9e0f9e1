"""`wager evaluate` on files: the values, the splits, and the errors that name part and row."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from service.__main__ import app
from service.schemas.reports import EvaluationAnswer
from tests.service.analytics.exports import LABELS, MODEL, log_columns, write_folder, write_part
from toolkit.evaluation.columns import LoggedModel
from toolkit.evaluation.parquet import described_model, parts_of
from toolkit.evaluation.passes import Log, survey
from toolkit.evaluation.plot import draw

FEW = ("--replicates", "20")


def run(source: Path, *options: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, ["evaluate", str(source), *FEW, *options])
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else found.stderr


def report(source: Path, *options: str) -> EvaluationAnswer:
    return EvaluationAnswer.model_validate_json(run(source, "--json", *options))


def refused(source: Path, *options: str) -> str:
    (line,) = run(source, *options, code=1).strip().splitlines()
    return line


def value(answer: EvaluationAnswer, policy: str, estimator: str = "ips") -> float:
    (found,) = [each for each in answer.policies if each.policy == policy]
    return {each.estimator: each.value for each in found.estimates}[estimator]


def numbers_of(answer: EvaluationAnswer) -> list[float]:
    found = list[float]()
    for policy in answer.policies:
        found += [policy.low, policy.high, policy.effective_rounds, policy.largest_weight, policy.mean_weight]
        found += [number for each in policy.estimates for number in (each.value, each.low or 0.0, each.high or 0.0)]
    return found


def test_columns_are_chosen_for_files_only() -> None:
    found = CliRunner().invoke(app, ["evaluate", "--model", "m", "--label-column", "x"])
    assert (found.exit_code, "options of columns are for files" in found.stderr) == (1, True)


def test_values_are_those_of_the_log(tmp_path: Path) -> None:
    columns = log_columns(4000)
    part = write_part(tmp_path / "log.parquet", columns)
    answer = report(part, "--policy", "constant:green", "--policy", "best-constant", "--plot", str(tmp_path / "p.svg"))
    assert value(answer, "served") == pytest.approx(np.mean(columns["reward"]))
    assert value(answer, "constant", "doubly_robust") == pytest.approx(0.5, abs=0.05)
    assert value(answer, "best_constant", "snips") == pytest.approx(0.8, abs=0.05)
    assert [each.label for each in answer.policies] == [None, "green", "blue"]
    assert "best_constant blue" in (tmp_path / "p.svg").read_text() or (tmp_path / "p.svg").stat().st_size > 5000
    said = run(part)
    assert "doubly_robust" in said
    direct = [line for line in said.splitlines() if "direct" in line]
    assert direct
    assert all("bias unknown" in line for line in direct)


def test_a_learner_is_evaluated_within_the_rules_of_the_model(tmp_path: Path) -> None:
    """The floor of the label with mean reward 0.2 decides nearly every answer."""
    columns, rules = log_columns(3000), {"floor": {"red": 0.98}}
    values = [
        value(report(write_part(tmp_path / f"{i}.parquet", columns, model), "--learner", "fastcb"), "learner fastcb")
        for i, model in enumerate((MODEL, MODEL | {"rules": rules}))
    ]
    assert values[0] > 0.6
    assert values[1] == pytest.approx(0.21, abs=0.04)


COSTS = {"red": 1.0, "green": 2.0, "blue": 4.0}


def priced(columns: dict[str, list[Any]], **weight: float) -> dict[str, list[Any]]:
    """Add what each answer cost, and λ, to all rounds but the first ten."""
    costs = [None if i < 10 else COSTS[label] for i, label in enumerate(columns["label"])]
    return columns | {"cost": costs} | {name: [value] * len(costs) for name, value in weight.items()}


def test_costs_are_estimated_like_rewards(tmp_path: Path) -> None:
    """The cost of a policy is a weighted mean of the costs of the log, in their unit; its rewards stay the same."""
    columns = log_columns(3000)
    policies = ("--policy", "uniform", "--policy", "constant:green", "--policy", "best-constant", "--learner", "fastcb")
    plain = report(write_part(tmp_path / "plain.parquet", columns), *policies)
    found = report(write_part(tmp_path / "log.parquet", priced(columns)), *policies)
    assert [each.cost for each in plain.policies] == [None] * 5
    assert numbers_of(found) == numbers_of(plain)
    costs = {each.policy: each.cost for each in found.policies}
    ends = {name: (cost.low or 0.0, cost.value, cost.high or 0.0) for name, cost in costs.items() if cost is not None}
    assert len(ends) == 5
    assert ends["constant"] == pytest.approx((2.0, 2.0, 2.0))
    assert ends["best_constant"] == pytest.approx((4.0, 4.0, 4.0))
    assert ends["served"][1] == pytest.approx(np.mean([COSTS[label] for label in columns["label"][10:]]))
    low, value, high = ends["uniform"]
    assert 2.2 < low < value < high < 2.5  # 7/3
    assert ends["learner fastcb"][1] > 3.3  # it prefers the label with the best rewards, which is the dearest
    split = report(write_folder(tmp_path / "parts", priced(columns), [0, 5, 1200]), *policies)
    assert [each.cost and each.cost.value for each in split.policies] == pytest.approx([e[1] for e in ends.values()])
    said = run(tmp_path / "log.parquet", *policies)
    assert said.count("mean cost") == 5
    assert "mean cost" not in run(tmp_path / "plain.parquet", *policies)
    free = columns | {"cost": [0.0] * 3000}
    assert [each.cost and each.cost.value for each in report(write_part(tmp_path / "free.parquet", free)).policies] == [
        0.0, 0.0, 0.0,
    ]  # fmt: skip


def cost_of(source: Path, *options: str) -> float:
    (found,) = [each.cost for each in report(source, *options).policies if each.policy.startswith("learner")]
    assert found is not None
    return found.value


def test_a_learner_is_evaluated_with_the_costs_and_weights_of_the_log(tmp_path: Path) -> None:
    """The model's costs count where a round has none, times the λ of the round. Other learners ignore them."""
    columns, model = log_columns(3000), MODEL | {"costs": COSTS}
    parts = [
        write_part(tmp_path / "free.parquet", priced(columns, cost_weight=0.0), model),
        write_part(tmp_path / "dear.parquet", priced(columns, cost_weight=1.0), model),
    ]
    for learner in ("fastcb", "squarecb"):
        free, dear = [cost_of(part, "--learner", learner) for part in parts]
        assert (free > 3.0, dear < 1.3) == (True, True), (learner, free, dear)
    free, dear = [cost_of(part, "--learner", "gaptron") for part in parts]
    assert free == dear
    given = {"red": 2.0, "green": 0.0, "blue": 2.0}
    own = priced(columns, cost_weight=1.0) | {"costs": [given] * 3000, "cost": [given[k] for k in columns["label"]]}
    answer = report(write_part(tmp_path / "own.parquet", own, model), "--learner", "fastcb")
    assert value(answer, "learner fastcb", "snips") == pytest.approx(0.5, abs=0.05)  # green, which is free there
    lines = [
        json.dumps({"rounds_seen": 0} | dict(zip(own, row, strict=True))) for row in zip(*own.values(), strict=True)
    ]
    (tmp_path / "own.ndjson").write_text("\n".join(line.replace('"[', "[").replace(']"', "]") for line in lines))
    again = report(tmp_path / "own.ndjson", "--learner", "fastcb")
    assert value(again, "learner fastcb", "snips") == pytest.approx(0.5, abs=0.05)
    costs = [{each.policy: each.cost for each in one.policies} for one in (answer, again)]
    assert costs[0]["served"] == costs[1]["served"]


def test_a_learner_is_evaluated_within_the_budget_of_the_model(tmp_path: Path) -> None:
    """Its own λ counts, not that of the log."""
    columns = priced(log_columns(6000), cost_weight=0.0) | {"rounds_seen": list(range(6000))}
    for budget in (1.5, 2.5):
        model = MODEL | {"costs": COSTS, "budget": {"cost": budget}}
        found = cost_of(write_part(tmp_path / f"{budget}.parquet", columns, model), "--learner", "fastcb")
        assert found == pytest.approx(budget, abs=0.12), budget


def test_impossible_costs_are_named_with_their_row(tmp_path: Path) -> None:
    columns, model = priced(log_columns(60), cost_weight=0.5), MODEL | {"costs": COSTS}
    wrong: list[tuple[str, Any, str]] = [
        ("cost", -1.0, "cost: got -1.0; must be from 0 to 1,000,000"),
        ("cost", float("inf"), "cost: got inf; must be finite"),
        ("cost_weight", -0.5, "cost_weight: got -0.5; must be from 0"),
        ("cost_weight", 1e7, "cost_weight: got 10000000.0; must be from 0"),
        ("costs", {"red": -1.0}, "costs.red: got -1.0; must be from 0"),
        ("costs", {"red": None}, "costs.red: got None; must be a number"),
        ("costs", {"black": 1.0}, "costs: got 'black'; the labels of the model are red, green, blue"),
    ]
    for name, number, said in wrong:
        column = [*columns.get(name, [None] * 60)]
        column[20] = number
        part = write_part(tmp_path / "log.parquet", columns | {name: column}, model)
        assert f"log.parquet: row 21: {said}" in refused(part, "--learner", "fastcb"), name


def test_the_reward_model_knows_named_features(tmp_path: Path) -> None:
    """The features that occur count, not the indices that they are hashed to; too many are left out."""
    rng = np.random.default_rng(4)
    who, labels = rng.choice(["cat", "dog"], 2000), rng.choice(["a", "b"], 2000)
    rewards = ((who == "cat") == (labels == "a")).astype(float)
    columns: dict[str, list[Any]] = {"who": who.tolist(), "number": list(range(2000)), "label": labels.tolist()}
    columns |= {"propensity": [0.5] * 2000, "reward": rewards.tolist()}
    found = report(as_csv(tmp_path / "log.csv", columns), "--policy", "constant:a", "--feature-columns", "who")
    assert [note for note in found.notes if "reward model" in note] == []
    widths = {each.estimator: each.high - each.low for each in found.policies[1].estimates if each.high and each.low}
    assert widths["doubly_robust"] < 0.85 * widths["snips"]
    many = report(tmp_path / "log.csv", "--feature-columns", "number", "--text-columns", "number")
    assert "The reward model has no contexts: too many features occur for a regression." in many.notes


def test_rows_that_should_not_be_trusted_say_so_themselves(tmp_path: Path) -> None:
    columns = log_columns(400)
    columns["propensity"] = [0.001 if i < 3 else 0.999 for i in range(400)]
    said = run(write_part(tmp_path / "log.parquet", columns), "--policy", "uniform")
    rows = [line.split("│") for line in said.splitlines() if "│ " in line]
    found = {row[2].strip(): row[5].strip() for row in rows if row[2].strip()}
    assert found.pop("direct") == "bias unknown"
    assert found.pop("conservative") == ""
    assert set(found.values()) == {"worth only 4 rounds"}
    assert {each.doubt for each in report(tmp_path / "log.parquet").policies[0].estimates} == {None, "bias unknown"}


def test_the_plot_names_what_it_draws(tmp_path: Path) -> None:
    axes: Any = Figure().subplots()
    draw(report(write_part(tmp_path / "log.parquet", log_columns(300))), axes)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["conservative interval", "doubly_robust", "snips", "ips"]
    assert axes.get_title() == "colours: values of policies on 300 rounds"
    assert {bar.get_hatch() for bar in axes.patches} == {"//"}


def as_csv(path: Path, columns: dict[str, list[Any]], **names: str) -> Path:
    cells = [["" if each is None else each for each in column] for column in columns.values()]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[names.get(name, name) for name in columns], *zip(*cells, strict=True)])
    return path


def test_csv_has_the_values_of_the_same_log_in_parquet(tmp_path: Path) -> None:
    """As in `wager replay`, options name the columns, and features are in columns or as JSON in one."""
    columns = log_columns(900)
    options = ("--policy", "uniform", "--policy", "constant:green", "--learner", "squarecb")
    expected = report(write_part(tmp_path / "log.parquet", columns), *options)
    found = report(as_csv(tmp_path / "log.csv", columns), *options)
    for policy in ("served", "uniform", "constant"):
        for estimator in ("ips", "snips", "replay"):
            assert value(found, policy, estimator) == pytest.approx(value(expected, policy, estimator), rel=1e-12)
        assert value(found, policy, "doubly_robust") == pytest.approx(
            value(expected, policy, "doubly_robust"), abs=0.01
        )
    assert (found.model, found.notes) == ("log", ["The model of the file is unknown: its labels are the 3 that occur."])
    for i, name in enumerate("xy"):
        columns[name] = [json.loads(each)[i] for each in columns["context"]]
    del columns["context"], columns["round"]
    named = as_csv(tmp_path / "log.csv", columns, label="served", propensity="p", reward="click")
    words = ("--label-column", "served", "--propensity-column", "p", "--reward-column", "click", *options)
    assert report(named, *words, "--feature-columns", "x,y").policies == found.policies


def test_wrong_csv_is_refused_as_by_the_other_commands(tmp_path: Path) -> None:
    columns = log_columns(30)
    columns["propensity"][7] = 7.0
    assert refused(as_csv(tmp_path / "a.csv", columns)).endswith(
        "a.csv: line 9: propensity: got 7.0; must be in [1e-12, 1]"
    )
    del columns["propensity"], columns["reward"], columns["true_label"]
    said = refused(as_csv(tmp_path / "b.csv", columns))
    assert "line 2: has no propensity" in said
    assert "--propensity-column" in said
    part = write_part(tmp_path / "log.parquet", log_columns(3))
    assert "options of columns are for CSV" in refused(part, "--label-column", "label")


def test_every_split_and_engine_gives_the_same(tmp_path: Path) -> None:
    columns = log_columns(600)
    whole = numbers_of(report(write_part(tmp_path / "log.parquet", columns), "--learner", "banditron"))
    for i, bounds in enumerate(([0, 1, 300], [0, 256, 257, 500, 501])):
        folder = write_folder(tmp_path / str(i), columns, bounds)
        options = ("--jobs", "2") if i == 1 else ()
        np.testing.assert_allclose(numbers_of(report(folder, "--learner", "banditron", *options)), whole, rtol=1e-12)


def test_a_hole_between_parts_is_a_warning(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "log", log_columns(300), [0, 10, 20, 30, 100])
    assert "missing" not in run(folder)
    (folder / "part-000000000001.parquet").unlink()
    assert "missing" not in run(folder, "--json")
    for first in (21, 31):
        (folder / f"part-{first:012}.parquet").unlink()
    (note,) = [each for each in report(folder).notes if "missing" in each]
    assert note.startswith("Warning: 80 rounds are missing between parts: 21 to 100. ")
    assert "21 to 100" in run(folder)


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same(tmp_path: Path) -> None:
    LocalCluster = pytest.importorskip("distributed").LocalCluster
    folder = write_folder(tmp_path / "log", log_columns(3000), [0, 500, 1700])
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        found = report(folder, "--engine", "dask", "--scheduler", cluster.scheduler_address)
    np.testing.assert_allclose(numbers_of(found), numbers_of(report(folder)), rtol=1e-12)


def test_the_holdout_is_compared(tmp_path: Path) -> None:
    columns = log_columns(600)
    columns["holdout"] = [i % 3 == 0 for i in range(600)]
    answer = report(write_part(tmp_path / "log.parquet", columns))
    rounds = {each.policy: each.rounds for each in answer.policies}
    assert (rounds["served"], rounds["holdout"], rounds["uniform"]) == (400, 200, 600)


def answered_by_holdout(columns: dict[str, list[Any]], policy: str) -> None:
    """Let a holdout answer half of the rounds: uniformly, always red, or a baseline that depends on the context."""
    rng = np.random.default_rng(4)
    for i, context in enumerate(map(json.loads, columns["context"])):
        if rng.random() < 0.5:
            drawn, fixed = str(rng.choice(LABELS)), "red" if policy == "red" or context[0] > 0.0 else "green"
            label = drawn if policy == "uniform" else fixed
            columns["reward"][i] = float(rng.random() < 0.2 + 0.3 * LABELS.index(label))
            columns["label"][i], columns["holdout"][i] = label, True
            columns["propensity"][i] = 1 / 3 if policy == "uniform" else 1.0


@pytest.mark.parametrize("policy", ["uniform", "red", "baseline"])
def test_every_kind_of_holdout_leaves_the_values_of_policies_right(tmp_path: Path, policy: str) -> None:
    """The served arm can give every answer, so the mean weight is 1, and the estimates hit the truth."""
    columns = log_columns(8_000)
    answered_by_holdout(columns, policy)
    folder = write_folder(tmp_path / "log", columns, [0, 3_000])
    mine = tmp_path / "mine.csv"
    mine.write_text("round,label\n" + "".join(f"{t},blue\n" for t in range(1, 8_001)))
    asked = ("served", "uniform", "best-constant", "constant:blue", "constant:red")
    options = [each for name in asked for each in ("--policy", name)]
    answer = report(folder, *options, "--choices", str(mine), "--learner", "uniform")
    truth = {"uniform": 0.5, "best_constant": 0.8, f"choices {mine}": 0.8, "learner uniform": 0.5}
    for found in answer.policies:
        if found.policy in {"served", "holdout"}:
            continue
        worth = truth[found.policy] if found.policy in truth else {"blue": 0.8, "red": 0.2}[found.label or ""]
        assert found.mean_weight == pytest.approx(1.0, abs=0.1), found.policy
        values = {each.estimator: each.value for each in found.estimates}
        for estimator in ("ips", "snips", "doubly_robust"):
            assert values[estimator] == pytest.approx(worth, abs=0.06), (found.policy, estimator)
    said = "Answers of the holdout were certain"
    assert any(note.startswith(said) for note in answer.notes) == (policy != "uniform")


def test_choices_of_a_file_are_a_policy(tmp_path: Path) -> None:
    part = write_part(tmp_path / "log.parquet", log_columns(300))
    single, spread = tmp_path / "single.csv", tmp_path / "spread.csv"
    single.write_text("round,label\n" + "".join(f"{t},blue\n" for t in range(1, 301)))
    rows = [f"{t},{label},{1 / 3}" for t in range(300, 0, -1) for label in LABELS]
    spread.write_text("round,label,probability\n" + "\n".join(rows) + "\n")
    files = ("--choices", str(single), "--choices", str(spread))
    answer = report(part, *files, "--policy", "uniform", "--policy", "constant:blue")
    assert value(answer, f"choices {single}") == pytest.approx(value(answer, "constant"))
    assert value(answer, f"choices {spread}", "doubly_robust") == pytest.approx(
        value(answer, "uniform", "doubly_robust")
    )


CHOICES = {
    "round,label\n1,blue\n": "round 2 of the log has no choice",
    "round,label\n1,pink\n": "line 2: label: got 'pink'; the labels of the model are red",
    "number,label\n1,blue\n": "has no column 'round'; its columns are number, label",
    "round,label,probability\n1,blue,0.5\n": "round 1 sum to 0.5",
    "round,label,probability\n1,blue,1.5\n": "line 2: probability: got 1.5",
    "round,label\none,blue\n": "line 2: round: got 'one'; must be a number",
    "round,label\n,blue\n": "line 2: round: got ''",
    "": "is empty",
}


def test_wrong_choices_are_refused(tmp_path: Path) -> None:
    """The message names the file, and the row or round."""
    part = write_part(tmp_path / "log.parquet", log_columns(3))
    for text, said in CHOICES.items():
        (tmp_path / "wrong.csv").write_text(text)
        assert said in refused(part, "--choices", str(tmp_path / "wrong.csv"))


ROWS: list[tuple[str, Any, str]] = [
    ("propensity", 0.0, "propensity: got 0.0; must be in [1e-12, 1]"),
    ("propensity", 9e-13, "propensity: got 9e-13; must be in [1e-12, 1]"),
    ("propensity", None, "propensity: got nan"),
    ("reward", 2.0, "reward: got 2.0"),
    ("label", "pink", "label: got 'pink'"),
    ("true_label", "pink", "true_label: got 'pink'"),
    ("eligible", ["red", "pink"], "eligible: got 'pink'"),
    ("context", "[1.0]", "context"),
    ("context", "[1.0", "context: is not JSON"),
    ("round", 3, "round: got 3; must increase"),
]


def test_wrong_rows_are_named_with_their_part(tmp_path: Path) -> None:
    for i, (name, wrong, said) in enumerate(ROWS):
        columns = log_columns(30)
        columns[name][17] = wrong
        line = refused(write_folder(tmp_path / str(i), columns, [0, 10]))
        assert f"row 8: {said}" in line
        assert "part-000000000011.parquet" in line


def test_wrong_files_are_named(tmp_path: Path) -> None:
    """Other formats, truncated files, newer versions, missing columns and files, and rounds that occur twice."""
    good = write_part(tmp_path / "good.parquet", log_columns(300))
    (tmp_path / "text.parquet").write_text("no Parquet")
    (tmp_path / "cut.parquet").write_bytes(good.read_bytes()[:3000])
    (tmp_path / "empty").mkdir()
    write_part(tmp_path / "new.parquet", log_columns(3), version=2)
    pq.write_table(pa.table({"round": [1]}), tmp_path / "bare.parquet")
    columns = log_columns(3)
    del columns["propensity"]
    write_part(tmp_path / "less.parquet", columns)
    write_part(write_folder(tmp_path / "twice", log_columns(30), [0, 10]) / "part-z.parquet", log_columns(30))
    for name, said in {
        "text.parquet": "is not Parquet, or damaged",
        "cut.parquet": "is not Parquet, or damaged",
        "none.parquet": "cannot be read: No such file",
        "empty": "has no file *.parquet",
        "new.parquet": "reads version 1",
        "bare.parquet": "metadata `wager`",
        "less.parquet": "has no column 'propensity'",
        "twice": "begins with round 1, but an earlier part ends with round 30",
    }.items():
        assert said in refused(tmp_path / name)


OPTIONS: list[tuple[tuple[str, ...], str]] = [
    (("--policy", "constant:pink"), "--policy constant: got 'pink'"),
    (("--policy", "best"), "must be served, uniform, best-constant or constant:LABEL"),
    (("--learner", "nothing"), "known algorithms"),
    (("--learner", '{"algorithm": "fastcb", "wrong": 1}'), "learner.wrong"),
    (("--learner", '{"algorithm"'), "is not JSON"),
    (("--learner", "fenchel-young-ranking"), "sets or rankings"),
    (("--engine", "dask"), "needs --scheduler"),
    (("--scheduler", "tcp://127.0.0.1:1"), "is for --engine dask"),
    (("--model", "colours"), "not both"),
    (("--plot", "/nowhere/p.png"), "--plot"),
]


def test_wrong_options_are_refused_with_what_is_allowed(tmp_path: Path) -> None:
    part = write_part(tmp_path / "log.parquet", log_columns(20))
    for options, said in OPTIONS:
        assert said in refused(part, *options)


def test_rankings_and_empty_logs_are_refused(tmp_path: Path) -> None:
    ranking = MODEL | {"learner": {"algorithm": "fenchel-young-ranking"}}
    assert "sets or rankings" in refused(write_part(tmp_path / "r.parquet", log_columns(3), ranking))
    assert "has no rounds" in refused(write_part(tmp_path / "e.parquet", log_columns(0)))


def test_actions_have_the_uniform_policy_if_the_log_has_their_number(tmp_path: Path) -> None:
    actions = {"features": {"kind": "named"}, "actions": {"features": {"kind": "named"}}, "labels": []}
    columns = log_columns(200)
    part = write_part(tmp_path / "a.parquet", columns, MODEL | actions)
    assert "do not say how many actions" in refused(part)
    assert "no constant labels" in refused(part, "--policy", "constant:red")
    assert "cannot be replayed" in refused(part, "--learner", "fastcb")
    part = write_part(tmp_path / "b.parquet", columns | {"distribution": [[0.2, 0.3, 0.5]] * 200}, MODEL | actions)
    known = value(report(part), "uniform")
    part = write_part(tmp_path / "c.parquet", columns | {"action_count": [3] * 200}, MODEL | actions)
    assert value(report(part), "uniform") == known > 0.0


def test_labels_that_were_added_later_are_not_expected_of_earlier_rounds(tmp_path: Path) -> None:
    columns = log_columns(200)
    columns["distribution"] = [[0.5, 0.5] if label != "blue" else [0.3, 0.3, 0.4] for label in columns["label"]]
    part = write_part(tmp_path / "log.parquet", columns)
    model = LoggedModel(described_model(parts_of(part)[0]), "log")
    (batch,) = parts_of(part)[0].batches(1000)
    rounds = model.rounds_of(batch, "log", 0, with_contexts=False)
    assert set(rounds.counts.tolist()) == {2, 3}
    assert survey(parts_of(part)[0], Log(model, 1, 1)).n == 200
