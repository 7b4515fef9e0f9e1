"""The laws of errors: each has its problem type, and no internal detail appears in an answer."""

import inspect
import re

import httpx2
import pytest
from fastapi import FastAPI

from service import errors
from service.api.responses import problem_types, problems
from service.schemas.problems import Problem

_CLASSES = dict(inspect.getmembers(errors, inspect.isclass))
ERRORS = [cls for _, cls in sorted(_CLASSES.items()) if issubclass(cls, errors.WagerError)]
LEAVES = [cls for cls in ERRORS if not cls.__subclasses__()]


@pytest.mark.parametrize("error", LEAVES, ids=lambda cls: str(cls.__name__))
def test_every_error_has_its_problem_type(error: type[errors.WagerError]) -> None:
    """Each error class becomes a problem of a distinct type, with its detail and field."""
    problem = problems.problem_of(error("what happened", "context.3"))
    assert (problem.detail, problem.field) == ("context.3: what happened", "context.3")
    assert problem.type.startswith(problems.TYPE_PREFIX)
    others = [problems.problem_of(other("")).type for other in LEAVES if other is not error]
    assert problem.type not in others


def test_kinds_are_distinct_and_well_formed() -> None:
    """Slugs are unique and in lower case with hyphens; statuses are errors; titles are present."""
    every = problem_types.every_kind()
    assert len({kind.slug for kind in every}) == len(every)
    for kind in every:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.slug)
        assert 400 <= kind.status < 600
        assert kind.title


def test_no_error_is_answered_with_410() -> None:
    """A webhook sender takes 410 as a request to stop forever."""
    assert 410 not in {kind.status for kind in problem_types.every_kind()}


async def test_an_unexpected_error_reveals_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A defect is answered with a 500 problem without internal details, which are logged."""
    app = FastAPI()
    problems.install(app)

    @app.get("/")
    async def broken() -> None:
        raise KeyError("redis://user:secret@host")

    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get("/")
    assert response.headers["content-type"] == problems.MEDIA_TYPE
    assert Problem.model_validate(response.json()).type == f"{problems.TYPE_PREFIX}internal-error"
    assert response.status_code == 500
    assert response.headers["connection"] == "close"  # so that no client sends its next request on a closed connection
    assert "secret" not in response.text
    assert "secret" in caplog.text
