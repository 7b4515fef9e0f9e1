"""The laws of `wager fit`: the frozen model, the bound that is printed, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from typer.testing import CliRunner

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.improper.folklore import Folklore
from learners.base import Contexts, Problem
from learners.codec import decode_state
from learners.estimators.inputs import take
from learners.evaluation.online_to_batch import average_weights, online_to_batch, state_of
from learners.mathematics.preparation import Preparation, Preparer
from service.__main__ import app
from tests.service.threads import Served

LABELS = ["a", "b", "c"]
PROBLEM = Problem(3, 4)  # three columns and the intercept
FOLKLORE = '{"algorithm": "folklore", "comparator_bound": 2.0}'


def run(*words: object) -> Any:
    result = CliRunner().invoke(app, ["fit", *map(str, words), "--json"])
    return json.loads(result.stdout) if result.exit_code == 0 else result.stderr.strip().splitlines()[-1]


def world(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    truths = rng.integers(0, 3, n)
    return (np.eye(3)[truths] + 0.3 * rng.normal(size=(n, 3))).round(3), truths


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    x, truths = world(80)
    lines = [",".join([*map(str, context), LABELS[truth]]) for context, truth in zip(x, truths, strict=True)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["x,y,z,label", *lines]) + "\n")
    return path


def ask(live: Served, method: str, path: str, body: Any = None) -> Any:
    response = httpx2.request(method, live.url + path, json=body)
    assert response.is_success, response.text
    return response.json()


def expected(learner: FenchelYoung | Folklore, seed: int, x: Any) -> Any:
    """Return the distributions for rows x of the state that the library makes of the file."""
    prepared = Preparer(Preparation("scale", 1.0, intercept=True, n_features=3))
    contexts, truths = world(80)
    order = np.random.default_rng((seed, 0)).permutation(80)
    played, truths = take(prepared(Contexts.dense(contexts)), order), truths[order]
    if isinstance(learner, Folklore):
        state: Any = online_to_batch(learner, played, truths, int(np.random.default_rng((seed, 1)).integers(1, 81)))
    else:
        state = state_of(learner, average_weights(learner, played, truths))
    return learner.decide(state, prepared(Contexts.dense(x))).distributions


LEARNERS: dict[str, FenchelYoung | Folklore] = {
    "fenchel-young": FenchelYoung(problem=PROBLEM),
    FOLKLORE: Folklore(problem=PROBLEM, comparator_bound=2.0),
    '{"algorithm": "fenchel-young", "learning_rate": 0.1, "radius": 3.0}': FenchelYoung(
        problem=PROBLEM, learning_rate=0.1, radius=3.0
    ),
}


@pytest.mark.parametrize("given", LEARNERS)
def test_the_frozen_model_answers_as_the_conversion_says(live: Served, name: str, rows: Path, given: str) -> None:
    model = f"{name}-fit"
    result = run(rows, "--model", model, "--learner", given, "--seed", 5, "--url", live.url)
    assert (result["model"], result["rows"]) == (model, 80)
    assert 0.0 < result["progressive_error"] < 2 / 3
    assert ask(live, "GET", f"/models/{model}")["mode"] == "frozen"
    x = np.random.default_rng(8).normal(size=(4, 3))
    wanted = expected(LEARNERS[given], 5, x)
    assert np.ptp(wanted) > 0.1
    for context, distribution in zip(x.tolist(), wanted, strict=True):
        body = {"model": model, "context": context, "include_distribution": True}
        for _ in range(2):  # feedback does not change it
            answer = ask(live, "POST", "/predict", body)
            assert list(answer["distribution"].values()) == pytest.approx(distribution.tolist(), abs=1e-9)
            feedback = {"prediction_id": answer["prediction_id"], "true_label": "a"}
            ask(live, "POST", "/feedback", feedback)


def test_equal_seeds_make_equal_files(live: Served, name: str, rows: Path, tmp_path: Path) -> None:
    files = [tmp_path / each for each in ("first", "again", "other")]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        run(rows, "--model", "m", "--seed", seed, "--output", file)
    first, again, other = (file.read_bytes() for file in files)
    assert first == again != other
    answer = httpx2.post(
        f"{live.url}/models/{name}-file/import", content=first, headers={"Content-Type": "application/octet-stream"}
    )
    assert answer.is_success, answer.text


@pytest.mark.parametrize(
    ("words", "bound"),
    [
        ((), 100.0 / (2.0 * (1.0 - math.log(2.0)) * math.log(2.0)) / 80),  # Theorem 5.1 with X = 1
        (("--comparator-norm", 2), 4.0 / (2.0 * (1.0 - math.log(2.0)) * math.log(2.0)) / 80),
        (("--learner", '{"algorithm": "fenchel-young", "learning_rate": 0.1, "radius": 3.0}'), 9.0 / 0.2 / 80),
        (("--learner", FOLKLORE), Folklore(problem=PROBLEM, comparator_bound=2.0).regret_bound(80) / 80),
    ],
)
def test_the_bound_is_that_of_the_library(rows: Path, tmp_path: Path, words: Any, bound: float) -> None:
    result = run(rows, "--model", "m", "--output", tmp_path / "file", *words)
    assert result["excess_risk"] == pytest.approx(bound, rel=1e-12)


def test_a_state_that_learns_again_knows_its_norm(rows: Path, tmp_path: Path) -> None:
    output, learner = tmp_path / "file", FenchelYoung(problem=PROBLEM)
    run(rows, "--model", "m", "--output", output)
    state = decode_state(learner, output.read_bytes())
    assert state.squared_norm > 0.1
    assert state.squared_norm == pytest.approx(np.sum(learner.weights(state) ** 2))


REFUSED = [
    (("--learner", "gaptron"), "learner: got gaptron; online-to-batch conversion applies here to fenchel-young"),
    (("--learner", "fenchel-young-ordinal"), "learner: got fenchel-young-ordinal; online-to-batch conversion"),
    (("--learner", "folklor"), 'learner.algorithm: got "folklor"; did you mean'),
    (("--learner", "{"), "--learner: is not JSON"),
    (("--learner", '{"algorithm": "fenchel-young", "learning_rate": 5.0}'), "learning_rate: got 5.0; online-to-batch"),
    (("--learner", FOLKLORE, "--comparator-norm", 3), "--comparator-norm: is for fenchel-young"),
    (("--learner", '{"algorithm": "fenchel-young", "radius": 1.0}', "--comparator-norm", 3), "at most the radius"),
    (("--comparator-norm", "inf"), "--comparator-norm: got inf; must be finite"),
    (("--size", 8), "--size: is for named features; the rows have dense ones"),
    (("--label-column", "kind"), "has no column 'kind'"),
    (("--url", "http://127.0.0.1:1"), "http://127.0.0.1:1"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_what_no_theorem_covers_is_refused_in_a_sentence(
    live: Served, name: str, rows: Path, words: Any, sentence: str
) -> None:
    before = ask(live, "GET", "/models")
    last = run(rows, "--model", f"{name}-no", "--url", live.url, *words)
    assert isinstance(last, str)
    assert sentence in last
    assert ask(live, "GET", "/models") == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x,label\n1,a\n2,\n", "line 3: label: got ''"),
        ("x,y,label,propensity,reward\n1,2,a,0.5,0\n1,1,b,0.5,1\n", "line 2: has no true label"),
        ("label\na\nb\n", "the rows have no features"),
        ("x,label\n", "has no rounds"),
    ],
)
def test_a_file_without_such_rows_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file, output = tmp_path / "rows.csv", tmp_path / "file"
    file.write_text(text)
    last = run(file, "--model", "m", "--output", output)
    assert isinstance(last, str)
    assert sentence in last
    assert not output.exists()


def test_an_existing_model_stays_as_it_is(live: Served, name: str, rows: Path) -> None:
    words = (rows, "--model", f"{name}-twice", "--url", live.url)
    run(*words)
    before = ask(live, "GET", f"/models/{name}-twice")
    assert "already exists" in run(*words, "--seed", 9)
    assert ask(live, "GET", f"/models/{name}-twice") == before


def test_the_true_labels_of_an_exported_log_are_rows(live: Served, name: str, rows: Path, tmp_path: Path) -> None:
    model, log = f"{name}-log", tmp_path / "log.ndjson"
    runner = CliRunner()
    replay = ["replay", str(rows), "--model", model, "--create", "--learner", "fenchel-young", "--url", live.url]
    assert runner.invoke(app, replay).exit_code == 0
    assert runner.invoke(app, ["export", "--model", model, "--output", str(log), "--url", live.url]).exit_code == 0
    first, second = (run(file, "--model", "m", "--output", tmp_path / "file") for file in (rows, log))
    assert first == second
