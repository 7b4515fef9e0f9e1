"""The project's prose, in docstrings, comments and pages, avoids some words."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_FORBIDDEN = re.compile(
    r"(?<![\w-])(?:told|whoever|stands|strangers?|meanwhile|so\s+many|for\s+ever|of\s+(?:its|one['’]s)\s+own|"
    r"(?:what|that)\s+is\s+there|behind(?!\s+(?:a|the|your)\s+(?:\w+\s+)?(?:proxy|balancer|gateway|firewall)\b))(?![\w-])",
    re.IGNORECASE,
)
_NO_PROSE = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)")
_COMMENT = {".lua": r"--(?!\[\[)([^\n]*)|--\[\[(.*?)\]\]", ".sh": r"(?<!\S)#([^\n]*)", ".yml": r"(?<!\S)#([^\n]*)"}


def prose(path: Path) -> Iterator[str]:
    """Yield the passages of prose in a file."""
    text = path.read_text()
    if path.suffix == ".md":
        yield text
    elif path.suffix == ".py":
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        yield "\n".join(each.string.lstrip("#") for each in tokens if each.type == tokenize.COMMENT)
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Expr(value=ast.Constant(value=str(docstring))):
                    yield docstring
    else:
        for match in re.finditer(_COMMENT[path.suffix.replace("yaml", "yml")], text, re.DOTALL):
            yield " ".join(filter(None, match.groups()))


def files() -> list[Path]:
    """Return the tracked files with prose, relative to the root."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [Path(name) for name in listed if Path(name).suffix in (".py", ".md", ".yaml", *_COMMENT)]


@pytest.mark.parametrize("folder", sorted({"/".join(path.parts[:-1][:2]) for path in files()}))
def test_prose_avoids_some_words(folder: str) -> None:
    found = [
        f"{path}: {' '.join(match.group().split())}"
        for path in files()
        if "/".join(path.parts[:-1][:2]) == folder and (ROOT / path).exists()
        for passage in prose(ROOT / path)
        for match in _FORBIDDEN.finditer(_NO_PROSE.sub("``", passage))
    ]
    assert found == []
