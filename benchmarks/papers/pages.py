"""The Markdown pages of results: one per experiment and one per stream of defaults. RESULTS.md links them."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results"
"""Folder of the committed pages and of the figures that they show."""


def write_page(folder: Path, name: str, title: str, introduction: str, command: str, body: str) -> None:
    """Write the page `name`.md; `command` is the one that measured it, without its interpreter."""
    folder.mkdir(parents=True, exist_ok=True)
    written_by = f"Written by `python -m benchmarks.papers {command}`."
    (folder / f"{name}.md").write_text(f"# {title}\n\n{introduction} {written_by}\n\n{body.rstrip()}\n")
