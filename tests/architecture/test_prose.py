"""Laws of the project's prose: docstrings, comments and Markdown pages use plain words."""

import subprocess
from pathlib import Path

import pytest

from tests.architecture.modules import ROOT
from tests.architecture.prose import forbidden_phrases, is_readable


def tracked_files() -> list[Path]:
    """Return the repository's files whose prose can be read, as paths from the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [Path(name) for name in listed.split("\0") if name]
    return [path for path in paths if is_readable(path) and (ROOT / path).exists()]


def rooms() -> dict[str, list[Path]]:
    """Return these files by their folder, up to the third level."""
    found: dict[str, list[Path]] = {}
    for path in tracked_files():
        found.setdefault("/".join(path.parts[:-1][:3]) or "root", []).append(path)
    return found


@pytest.mark.parametrize("room", sorted(rooms()))
def test_prose_uses_plain_words(room: str) -> None:
    """No docstring, comment or page contains a forbidden word or phrase."""
    found = [each for path in rooms()[room] for each in forbidden_phrases(path, (ROOT / path).read_text())]
    assert not found, "\n".join(["", *found])


def test_every_language_is_read() -> None:
    """The repository has files of each format."""
    assert {path.suffix for path in tracked_files()} >= {".py", ".lua", ".md", ".sh", ".yml", ".yaml"}


BROKEN = {
    "module docstring": ("a.py", '"""The reader is told."""\n', ["a.py:1: told"]),
    "second line of a docstring": ("a.py", 'def f():\n    """Do.\n\n    Whoever asks.\n    """\n', ["a.py:4: Whoever"]),
    "attribute docstring": ("a.py", 'X = 1\n"""Stands for x."""\n', ["a.py:2: Stands"]),
    "comment": ("a.py", "x = 1  # of its own\n", ["a.py:1: of its own"]),
    "phrase over two comments": ("a.py", "# So\n# many.\n", ["a.py:1: So many"]),
    "phrase over two lines of a docstring": ("a.py", 'class A:\n    """For\n    ever."""\n', ["a.py:2: For ever"]),
    "two in one line": (
        "a.md",
        "Meanwhile, a stranger; two\nstrangers.\n",
        ["a.md:1: Meanwhile", "a.md:1: stranger", "a.md:2: strangers"],
    ),
    "page": (
        "a.md",
        "# Title\n\nWhat is\nthere, and that is there, of one's own.\n",
        ["a.md:3: What is there", "a.md:4: that is there", "a.md:4: of one's own"],
    ),
    "phrase after a code span": ("a.md", "The `long code span`\nis\ntold.\n", ["a.md:3: told"]),
    "position": ("a.md", "Behind the last round.\n", ["a.md:1: Behind"]),
    "position of a word like proxy": ("a.md", "behind a proxyish thing\n", ["a.md:1: behind"]),
    "Lua comment": ("a.lua", "local x = '--' -- told\n", ["a.lua:1: told"]),
    "Lua block": ("a.lua", "--[[ one\ntold ]] return 1\n", ["a.lua:2: told"]),
    "shell comment": ("a.sh", '#!/bin/sh\necho "# no" # told\n', ["a.sh:2: told"]),
    "YAML comment": ("a.yml", "a: don't # it is told 'so'\n# so\n# many\n", ["a.yml:1: told", "a.yml:2: so many"]),
    "Kubernetes comment": ("a.yaml", "# stands\na: 1\n", ["a.yaml:1: stands"]),
}

SOUND = {
    "string literal": ("a.py", "x = 'told'\nraise ValueError('so many')\n"),
    "name": ("a.py", "# the variable as_told\ntold = 1\n"),
    "code span": ("a.md", "The member `told` of a [page](behind.md).\n"),
    "part of a word": ("a.md", "Untold understands; outstands; so-many.\n"),
    "proxy": ("a.md", "Behind a reverse proxy, behind your load balancer, behind the\nfirewall.\n"),
    "phrase over code": ("a.py", "# so\nx = 1\n# many\n"),
    "phrase over paragraphs": ("a.md", "And so\n\nmany\n"),
    "Lua string": ("a.lua", 'local x = "-- told"\n'),
    "shell string": ("a.sh", "echo '# told' a#told\n"),
    "YAML value": ("a.yml", 'a: "# told"\nb: told\n'),
}


@pytest.mark.parametrize(("name", "text", "expected"), BROKEN.values(), ids=BROKEN)
def test_a_forbidden_phrase_is_reported_with_its_line(name: str, text: str, expected: list[str]) -> None:
    """Each occurrence has one message, in order."""
    assert forbidden_phrases(Path(name), text) == expected


@pytest.mark.parametrize(("name", "text"), SOUND.values(), ids=SOUND)
def test_plain_text_is_not_reported(name: str, text: str) -> None:
    """Names, literals, code spans, parts of words and network positions are allowed."""
    assert forbidden_phrases(Path(name), text) == []
