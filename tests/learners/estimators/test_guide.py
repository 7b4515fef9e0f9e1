"""The examples of docs/reference/estimators.md run as they are written."""

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = (Path(__file__).parents[3] / "docs/reference/estimators.md").read_text(encoding="utf-8")


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.replace('{"algorithm": "gaptron", "loss": "hinge"}', '"uniform"'), names)
    assert names["classifier"].rounds_ == 3001
    assert names["classifier"].set_params(norm="default").score(names["X"], names["y"]) > 0.8
    assert {row["name"] for row in names["rows"]} == {"fastcb", "fastcb norm=unit", "uniform"}
    assert (tmp_path / "curves.png").exists()
