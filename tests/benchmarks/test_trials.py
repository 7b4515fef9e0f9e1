"""The tables of defaults choose each best setting on some seeds, and measure it on others."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.runs import Run
from benchmarks.papers.store import load
from tests.benchmarks.test_papers import rows_of, run

_SHORT = ["--rounds", "200", "--seeds", "2", "--tuning-seeds", "3", "--backend", "sequential"]


def test_the_best_setting_is_measured_on_seeds_that_did_not_choose_it(tmp_path: Path) -> None:
    """Choose by the first seeds; on the seeds after them, play the default and the choice, and no other setting."""
    run("defaults", *_SHORT, "--streams", "synsep", "--learners", "banditron,uniform", "--out", str(tmp_path))
    rows = [row for row in rows_of(tmp_path / "defaults" / "table.csv") if row["learner"] == "banditron"]
    tuning = {row["setting"]: float(row["error_mean"]) for row in rows if row["purpose"] == "tuning"}
    default, best = (next(row for row in rows if row["purpose"] == purpose) for purpose in ("default", "best"))
    assert (default["setting"], best["setting"]) == ("default", min(tuning, key=tuning.__getitem__))
    assert best["setting"] != "default"
    played: dict[str, set[int]] = {}
    for path in tmp_path.glob("runs/synsep/banditron/*.json"):
        setting, seed = re.fullmatch(r"(.+)-T200-seed(\d+)-.+", path.stem).groups()  # type: ignore[union-attr]
        played.setdefault(setting.replace("=", " "), set()).add(int(seed))
    chosen = {"default", best["setting"]}
    assert {setting for setting, seeds in played.items() if seeds == {0, 1, 2, 3, 4}} == chosen
    assert {setting for setting, seeds in played.items() if seeds == {0, 1, 2}} == set(tuning) - chosen
    fresh = [Run("synsep", None, "banditron", {}, 200, seed) for seed in (3, 4)]
    assert float(default["error_mean"]) == pytest.approx(np.mean([load(tmp_path, one).error for one in fresh]))
    assert len(list(tmp_path.glob("runs/synsep/uniform/default-T200-seed[34]-*.json"))) == 2
    assert len(list(tmp_path.glob("runs/synsep/uniform/*.json"))) == 2  # with one setting, there is nothing to choose
