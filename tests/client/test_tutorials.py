"""The laws of the tutorials: every block of a page runs as printed, in order, and shows what the page says."""

import contextlib
import io
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import TYPESCRIPT
from tests.service.wager import Wager

ROOT = Path(__file__).parents[2]
LONG = ("llm-routing", "recommendations")  # take half a minute each
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_VARIES = re.compile(r"~[\w-]+(:\d+)?|\d+([.:T-]\d+)*|(?<![\w.])[+-](?=\d)")
_LABELS = re.compile(r'labels"?[=:] ?\[(.*?)\]|"id": ("[\w-]+")')


def blocks(page: Path, url: str) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each block, for the service at `url`."""
    for language, text in _BLOCK.findall(page.read_text()):
        yield language, text.replace("http://127.0.0.1:8000", url)


def shape(output: str, page: Path) -> list[str]:
    """Return the lines of an output with the same word for all numbers, ids, and labels, which are drawn."""
    found = {word for match in _LABELS.findall(page.read_text()) for word in re.findall(r'"([\w-]+)"', "".join(match))}
    drawn = re.compile(rf"\b({'|'.join(sorted(found, key=len, reverse=True))})\b")
    lines = [_VARIES.sub("0", drawn.sub("LABEL", line)) for line in output.strip().splitlines()]
    return [" ".join(line.split()) for line in lines]


def of_shell(code: str) -> str:
    done = subprocess.run(["sh", "-e", "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_python(code: str, names: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "tutorial", "exec"), names)
    return printed.getvalue()


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem in LONG)) for page in PAGES]
)
def test_a_tutorial_runs_and_shows_what_it_says(page: Path, running: Wager) -> None:
    names: dict[str, Any] = {}
    output: str | None = None
    for language, text in blocks(page, running.url):
        match language:
            case "sh":
                output = of_shell(text)
            case "python":
                output = of_python(text, names)
            case "js":
                output = None
            case _:
                assert language == "text"
                assert output is None or shape(output, page) == shape(text, page), output
    names["wager"].close()


def test_the_program_for_node_runs(running: Wager, node: str) -> None:
    (page,) = (each for each in PAGES if each.stem == "clicks")
    found = list(blocks(page, running.url))
    (number,) = (i for i, (language, _) in enumerate(found) if language == "js")
    of_shell(f"curl -s -X DELETE {running.url}/models/tutorial-clicks")
    of_shell(found[0][1])
    command = [node, "--input-type=module", "--eval", found[number][1]]
    done = subprocess.run(command, cwd=TYPESCRIPT, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    assert shape(done.stdout, page) == shape(found[number + 1][1], page)
