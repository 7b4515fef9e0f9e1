"""`wager evaluate` on files: the values, the splits, and the errors that name part and row."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from service.schemas.reports import EvaluationAnswer
from tests.service.analytics.exports import LABELS, MODEL, log_columns, write_folder, write_part
from toolkit.evaluation.columns import LoggedModel
from toolkit.evaluation.engines import local
from toolkit.evaluation.parquet import described_model, parts_of
from toolkit.evaluation.passes import Log, survey

FEW = ("--replicates", "20")


def run(source: Path, *options: str, code: int = 0) -> str:
    """Run the command on a file or folder; return what it prints, or its error."""
    found = CliRunner().invoke(app, ["evaluate", str(source), *FEW, *options])
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else found.stderr


def report(source: Path, *options: str) -> EvaluationAnswer:
    """Return the report of the command."""
    return EvaluationAnswer.model_validate_json(run(source, "--json", *options))


def refused(source: Path, *options: str) -> str:
    """Return the one line of the refused command."""
    (line,) = run(source, *options, code=1).strip().splitlines()
    return line


def value(answer: EvaluationAnswer, policy: str, estimator: str = "ips") -> float:
    """Return the value of a policy."""
    (found,) = [each for each in answer.policies if each.policy == policy]
    return {each.estimator: each.value for each in found.estimates}[estimator]


def numbers_of(answer: EvaluationAnswer) -> list[float]:
    """Return all numbers of a report."""
    found = list[float]()
    for policy in answer.policies:
        found += [policy.low, policy.high, policy.effective_rounds, policy.largest_weight, policy.mean_weight]
        found += [number for each in policy.estimates for number in (each.value, each.low or 0.0, each.high or 0.0)]
    return found


def test_values_are_those_of_the_log(tmp_path: Path) -> None:
    """Constant labels have 0.2, 0.5 and 0.8; the best one is found; the table and the figure have all policies."""
    columns = log_columns(4000)
    part = write_part(tmp_path / "log.parquet", columns)
    answer = report(part, "--policy", "constant:green", "--policy", "best-constant", "--plot", str(tmp_path / "p.svg"))
    assert value(answer, "served") == pytest.approx(np.mean(columns["reward"]))
    assert value(answer, "constant", "doubly_robust") == pytest.approx(0.5, abs=0.05)
    assert value(answer, "best_constant", "snips") == pytest.approx(0.8, abs=0.05)
    assert [each.label for each in answer.policies] == [None, "green", "blue"]
    assert "best_constant blue" in (tmp_path / "p.svg").read_text() or (tmp_path / "p.svg").stat().st_size > 5000
    assert "doubly_robust" in run(part)


def test_every_split_and_engine_gives_the_same(tmp_path: Path) -> None:
    """A file, parts of odd sizes, and several processes agree to 1e-12."""
    columns = log_columns(1200)
    whole = numbers_of(report(write_part(tmp_path / "log.parquet", columns), "--learner", "banditron"))
    for i, bounds in enumerate(([0, 1, 700], [0, 256, 257, 600, 601])):
        folder = write_folder(tmp_path / str(i), columns, bounds)
        options = ("--jobs", "2") if i == 1 else ()
        np.testing.assert_allclose(numbers_of(report(folder, "--learner", "banditron", *options)), whole, rtol=1e-12)


def test_a_hole_between_parts_is_a_warning(tmp_path: Path) -> None:
    """The report and its JSON name the missing rounds; a log that begins late or has no hole has no warning."""
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
    """Two processes of a cluster agree with this one to 1e-12."""
    LocalCluster = pytest.importorskip("distributed").LocalCluster
    folder = write_folder(tmp_path / "log", log_columns(3000), [0, 500, 1700])
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        found = report(folder, "--engine", "dask", "--scheduler", cluster.scheduler_address)
    np.testing.assert_allclose(numbers_of(found), numbers_of(report(folder)), rtol=1e-12)


def test_the_holdout_is_compared(tmp_path: Path) -> None:
    """Its rounds are a policy of their own, and are not those of the served policy."""
    columns = log_columns(600)
    columns["holdout"] = [i % 3 == 0 for i in range(600)]
    answer = report(write_part(tmp_path / "log.parquet", columns))
    rounds = {each.policy: each.rounds for each in answer.policies}
    assert (rounds["served"], rounds["holdout"], rounds["uniform"]) == (400, 200, 600)


def test_choices_of_a_file_are_a_policy(tmp_path: Path) -> None:
    """One label per round, or a distribution; the constant policy and its file agree."""
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("round,label\n1,blue\n", "round 2 of the log has no choice"),
        ("round,label\n1,pink\n", "line 2: label: got 'pink'; the labels of the model are red"),
        ("number,label\n1,blue\n", "has no column 'round'; its columns are number, label"),
        ("round,label,probability\n1,blue,0.5\n", "round 1 sum to 0.5"),
        ("round,label,probability\n1,blue,1.5\n", "line 2: probability: got 1.5"),
        ("round,label\none,blue\n", "line 2: round: got 'one'; must be a number"),
        ("round,label\n,blue\n", "line 2: round: got ''"),
        ("", "is empty"),
    ],
)
def test_wrong_choices_are_refused(tmp_path: Path, text: str, said: str) -> None:
    """The message names the file, and the row or round."""
    part = write_part(tmp_path / "log.parquet", log_columns(3))
    (tmp_path / "wrong.csv").write_text(text)
    assert said in refused(part, "--choices", str(tmp_path / "wrong.csv"))


def _with(columns: dict[str, list[Any]], name: str, row: int, wrong: Any) -> dict[str, list[Any]]:
    columns[name][row] = wrong
    return columns


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("propensity", 0.0, "row 8: propensity: got 0.0; must be in [1e-12, 1]"),
        ("propensity", 9e-13, "row 8: propensity: got 9e-13; must be in [1e-12, 1]"),
        ("propensity", None, "row 8: propensity: got nan"),
        ("reward", 2.0, "row 8: reward: got 2.0"),
        ("label", "pink", "row 8: label: got 'pink'"),
        ("true_label", "pink", "row 8: true_label: got 'pink'"),
        ("eligible", ["red", "pink"], "row 8: eligible: got 'pink'"),
        ("context", "[1.0]", "row 8: context"),
        ("context", "[1.0", "row 8: context: is not JSON"),
        ("round", 3, "row 8: round: got 3; must increase"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, name: str, wrong: Any, said: str) -> None:
    """With the part and the row."""
    folder = write_folder(tmp_path / "log", _with(log_columns(30), name, 17, wrong), [0, 10])
    line = refused(folder)
    assert said in line
    assert "part-000000000011.parquet" in line


def test_wrong_files_are_named(tmp_path: Path) -> None:
    """Other formats, truncated files, newer versions, missing columns and files, and rounds that occur twice."""
    good = write_part(tmp_path / "good.parquet", log_columns(300))
    (tmp_path / "text.parquet").write_text("no Parquet")
    (tmp_path / "cut.parquet").write_bytes(good.read_bytes()[:3000])
    assert "is not Parquet, or damaged" in refused(tmp_path / "text.parquet")
    assert "is not Parquet, or damaged" in refused(tmp_path / "cut.parquet")
    assert "cannot be read: No such file" in refused(tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    assert "has no file *.parquet" in refused(tmp_path / "empty")
    assert "reads version 1" in refused(write_part(tmp_path / "new.parquet", log_columns(3), version=2))
    pq.write_table(pa.table({"round": [1]}), tmp_path / "bare.parquet")
    assert "metadata `wager`" in refused(tmp_path / "bare.parquet")
    columns = log_columns(3)
    del columns["propensity"]
    assert "has no column 'propensity'" in refused(write_part(tmp_path / "less.parquet", columns))
    twice = tmp_path / "twice"
    write_folder(twice, log_columns(30), [0, 10])
    write_part(twice / "part-z.parquet", log_columns(30))
    assert "begins with round 1, but an earlier part ends with round 30" in refused(twice)


@pytest.mark.parametrize(
    ("options", "said"),
    [
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
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    """With one line that says what is allowed."""
    assert said in refused(write_part(tmp_path / "log.parquet", log_columns(20)), *options)


def test_rankings_and_empty_logs_are_refused(tmp_path: Path) -> None:
    """There is nothing to estimate."""
    ranking = MODEL | {"learner": {"algorithm": "fenchel-young-ranking"}}
    assert "sets or rankings" in refused(write_part(tmp_path / "r.parquet", log_columns(3), ranking))
    assert "has no rounds" in refused(write_part(tmp_path / "e.parquet", log_columns(0)))


def test_actions_have_the_uniform_policy_if_the_log_has_their_number(tmp_path: Path) -> None:
    """Not the constant one, and no learner."""
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
    """A distribution over two labels means that the third did not exist, and the uniform policy is over two."""
    columns = log_columns(200)
    columns["distribution"] = [[0.5, 0.5] if label != "blue" else [0.3, 0.3, 0.4] for label in columns["label"]]
    part = write_part(tmp_path / "log.parquet", columns)
    model = LoggedModel(described_model(parts_of(part)[0]), "log")
    (batch,) = parts_of(part)[0].batches(1000)
    rounds = model.rounds_of(batch, "log", 0, with_contexts=False)
    assert set(rounds.counts.tolist()) == {2, 3}
    assert survey(parts_of(part)[0], Log(model, 1, 1)).n == 200


def test_engines_yield_results_in_the_order_of_the_parts() -> None:
    """In this process and in several."""
    assert list(local(1).map(divmod, [7, 8, 9], 4)) == [(1, 3), (2, 0), (2, 1)]
    with local(2) as engine:
        assert list(engine.map(divmod, [7, 8, 9], 4)) == [(1, 3), (2, 0), (2, 1)]


def test_the_report_is_json(tmp_path: Path) -> None:
    """Nothing else is on standard output."""
    printed = run(write_part(tmp_path / "log.parquet", log_columns(50)), "--json")
    assert json.loads(printed)["model"] == "colours"
