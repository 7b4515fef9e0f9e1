"""BENCHMARKS.md: what users ask, answered from the tables of benchmarks/results; and its plot, drawn from `peers`."""

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

from benchmarks.record import FOLDER, page, rows_of

FILE = Path(__file__).parent.parent / "BENCHMARKS.md"
PLOT = FOLDER / "peers.svg"


class Question(NamedTuple):
    """A question, and where a table answers it."""

    text: str
    section: str
    row: str  # its first column
    found: str  # a pattern in the row: measured | baseline | ratio
    answer: str  # with the groups of the pattern
    arguments: str = ""  # of the command, besides the section

    @property
    def command(self) -> str:
        """The command that prints the row."""
        return (
            f"make bench ARGS='{self.section} {self.arguments}'"
            if self.arguments
            else f"make bench ARGS={self.section}"
        )

    def answered(self) -> str:
        """Return the answer.

        Raises:
            LookupError: if the table lacks the row, or the row the figure.
        """
        cells = rows_of(page(self.section).read_text(), self.section)[self.row]
        figures = re.search(self.found, " | ".join(cells[1:4]))
        if not figures:
            raise LookupError(f"{self.section}: '{self.row}' has no figure {self.found}")
        return figures.expand(self.answer)


_P50 = r"p50 ([\d,]+ µs).*FastAPI .*p50 ([\d,]+ µs)"
_TIMES = r"\1; a plain FastAPI application that does nothing, \2"

QUESTIONS = (
    Question("How long does a lone prediction take?", "http", "alone, fastcb: workers' CPU, /predict", _P50, _TIMES),
    Question("How long does a lone feedback take?", "http", "alone, fastcb: workers' CPU, /feedback", _P50, _TIMES),
    Question(
        "How many requests a second do two workers answer for one busy model?", "http",
        "hot, fastcb: workers' CPU, /predict and /feedback in turn", r"([\d,]+ /s) \|.*; ([\d,]+ /s) \|",
        r"\1; plain FastAPI, \2",
    ),
    Question(
        "And for 300 models in turn?", "http",
        "many, fastcb: workers' CPU, /predict and /feedback in turn", r"([\d,]+ /s) \|.*; ([\d,]+ /s) \|",
        r"\1; plain FastAPI, \2",
    ),
    Question(
        "How many decisions a second in batches of 500?", "batches",
        "durable decisions in batches of 500, fastcb, K=10, d=20, vs. Vowpal Wabbit", r"([\d,]+ /s) \| ([\d,]+ /s)",
        r"\1; Vowpal Wabbit in the program, which stores nothing, \2",
    ),
    Question(
        "Within which time are 99 % of predictions answered, at 70 % of plain FastAPI's rate?", "latency",
        "POST /predict, p99", r"([\d.]+ ms).* \| ([\d.]+ ms)", r"\1; plain FastAPI, \2",
    ),
    Question(
        "How many rounds a second does a learner take without a service?", "simulation",
        "simulate fastcb, K = 9, d = 400, 47 words", r"([\d,]+) rounds/s \| vowpalwabbit ([\d,]+)",
        r"\1 rounds/s; Vowpal Wabbit, \2 rounds/s",
    ),
    Question(
        "How many requests a second with 50 actions of 20 features each?", "actions",
        "POST /predict, 50 actions of 20 named features, 2,000 items, vs. a plain FastAPI application",
        r"([\d,]+ /s) \| ([\d,]+ /s)", r"\1; plain FastAPI, \2",
    ),
    Question(
        "Do predictions slow down as the log grows to ten million rounds?", "history",
        "POST /predict, 10,000,000 rounds vs. 1,000", r"([\d,]+ /s) \| ([\d,]+ /s)",
        r"\1; with a thousand rounds, \2", "--long",
    ),
    Question(
        "What do 10,000 requests a second need, with a window of an hour?", "capacity",
        "10,000 requests/s, window 1 h", r"(\d+ workers), (\d+ shards), (\d+ GiB)",
        r"\1, \2 of the store, \3 (computed)",
    ),
    Question(
        "What does a flush to disk at every write cost?", "durability",
        "predictions and feedback in turn, 16 connections, appendfsync always",
        r"([\d,]+ decisions/s) \| ([\d,]+ decisions/s)", r"\1; without flushes, \2",
    ),
    Question(
        "How long does a start take, to the first answer?", "startup",
        "wager serve, embedded store, to the first answer", r"([\d.]+ s)", r"\1",
    ),
)  # fmt: skip

_PLACE = re.compile(r"(?<=<!-- answers -->\n).*(?=<!-- end -->)", re.DOTALL)
_RATES = re.compile(r"([\d,]+) predict/s, ([\d,]+) feedback/s; ([\d,]+) updates lost, ([\d,]+) repeated")
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f } .note { fill: #57606a } .bar { fill: #0969da }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .note { fill: #9198a1 } .bar { fill: #4493f8 } }"""


def write() -> None:
    """Write the table of BENCHMARKS.md, and the plot."""
    FILE.write_text(with_answers(FILE.read_text()))
    PLOT.write_text(plot())


def with_answers(text: str) -> str:
    """Return the text with the table of answers replaced."""
    rows = [
        f"| {each.text} | {each.answered()} | [`{each.command}`](benchmarks/results/{each.section}.md) |"
        for each in QUESTIONS
    ]
    table = "\n".join(["| question | answer | command |", "|---|---|---|", *rows]) + "\n"
    return _PLACE.sub(lambda _: table, text)


def plot() -> str:
    """Return an SVG of the feedback that each service of `peers` takes in a second, and what it counts wrongly."""
    rates = {what: _RATES.search(row[1]) for what, row in rows_of(page("peers").read_text(), "peers").items()}
    found = {what: [int(each.replace(",", "")) for each in rate.groups()] for what, rate in rates.items() if rate}
    most = max(feedback for _, feedback, *_ in found.values())
    bars = "\n".join(
        _bar(24 + 26 * line, what, feedback, 330 * feedback / most, f"{lost:,} lost, {repeated:,} repeated")
        for line, (what, (_, feedback, lost, repeated)) in enumerate(found.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {26 * len(found) + 16}" role="img">\n'
        f"<title>Feedback per second, and updates lost or repeated</title>\n<style>{_STYLE}</style>\n{bars}\n</svg>\n"
    )


def _bar(y: int, what: str, rate: int, width: float, note: str) -> str:
    return (
        f'<text x="290" y="{y}" text-anchor="end">{escape(what)}</text>'
        f'<rect class="bar" x="300" y="{y - 13}" width="{width:.1f}" height="17"/>'
        f'<text x="{width + 308:.1f}" y="{y}">{rate:,}/s<tspan class="note">  {note}</tspan></text>'
    )
