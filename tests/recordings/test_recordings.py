"""The law of recordings: every answer of the API is the recorded one. They were made for changes that must not show."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from learners.registry import ACTION_LEARNERS, ALL_LEARNERS
from service.api.responses.problem_types import every_kind
from service.schemas.models import ModelDefinition, ModelPatch
from service.store.embedded.server import EmbeddedServer
from tests.recordings.book import CHAPTERS
from tests.recordings.comparing import report
from tests.recordings.exchanges import Recorded
from tests.recordings.files import FOLDER, read
from tests.recordings.playing import played
from tests.service.api_description import api_description

OUT_OF_REACH = {
    "about-to-stop": "needs SIGTERM to the process of the worker",
    "history-lost": "needs a fail-over that loses a change",
    "learner-not-ready": "needs another process that compiles",
    "compute-spent": "needs processor time, which differs from run to run",
    "internal-error": "needs an error of the service",
    "too-many-changes": "needs thousands of changes, which take seconds",
}
"""The types of problems that no exchange has, with the reasons."""


@pytest.mark.parametrize("title", CHAPTERS)
async def test_every_answer_is_the_recorded_one(title: str, tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        exchanges, error = await played(CHAPTERS[title], server.url)
    found = report(title, read(title), exchanges)
    assert not found, f"the answers are not the recorded ones:\n{found}"
    assert error is None


def test_every_file_is_of_a_chapter() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{title}.jsonl.gz" for title in CHAPTERS}


@cache
def every_exchange() -> Sequence[Recorded]:
    return [each for title in CHAPTERS for each in read(title)]


def successful(method: str, path: str) -> list[Recorded]:
    pattern = re.compile(f"{method} {re.sub(r'{[a-z_]+}', '[^/?]+', path)}")
    return [
        each for each in every_exchange() if each["status"] < 400 and pattern.fullmatch(each["request"].split("?")[0])
    ]


def test_every_operation_succeeds_in_some_exchange() -> None:
    operations = [(method.upper(), path) for path, item in api_description()["paths"].items() for method in item]
    assert [each for each in operations if not successful(*each)] == []


def test_every_learner_has_an_exchange() -> None:
    made = [each["body"] for each in successful("POST", "/models")]
    assert {body["learner"]["algorithm"] for body in made if body["labels"]} == {*ALL_LEARNERS}
    assert {body["learner"]["algorithm"] for body in made if body["actions"]} == {*ACTION_LEARNERS}


def test_every_field_of_a_model_has_an_exchange() -> None:
    assert _sent("POST", "/models") == {*ModelDefinition.model_fields}
    assert _sent("PATCH", "/models/{name}") == {*ModelPatch.model_fields}


def _sent(method: str, path: str) -> set[str]:
    return {field for each in successful(method, path) for field in each["sent"] or ()}


def test_every_problem_has_an_exchange() -> None:
    found = {problem for each in every_exchange() for problem in _problems(each["body"])}
    assert {kind.slug for kind in every_kind()} - found == {*OUT_OF_REACH}


def _problems(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if str(value.get("type", "")).startswith("urn:wager:problem:"):
            yield value["type"].removeprefix("urn:wager:problem:")
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _problems(each)
