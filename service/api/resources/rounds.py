"""`GET` and `POST /models/{name}/rounds`: the log of a model, and rounds from elsewhere."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from service import errors, input_errors
from service.actions import errors as actions
from service.api.resources.models import Name
from service.api.responses.batches import check_size
from service.api.responses.json_route import JsonRoute
from service.api.responses.problems import responses
from service.api.responses.strict_route import StrictRoute
from service.catalogue.catalogue import Catalogue
from service.compute import Compute
from service.imports.importer import RoundImporter
from service.schemas.imports import ImportAnswer, ImportList, ImportRequest
from service.schemas.rounds import RoundLine

_COST_PER_LINE = 20_000  # cost of writing a line, in multiply-adds
_NDJSON = "application/x-ndjson"
_SCHEMA = RoundLine.model_json_schema(ref_template="#/components/schemas/{model}")
_DEFINED = _SCHEMA.pop("$defs")  # openapi.json lists them among its components, except the following one
_SCHEMA["properties"]["actions"]["anyOf"][0]["items"] = _DEFINED["LoggedAction"]
_RESPONSES = responses(errors.ModelNotFoundError, errors.NewerVersionError, errors.StoreCorruptError) | {
    200: {
        "description": "One `RoundLine` in JSON per line.",
        "content": {_NDJSON: {"schema": _SCHEMA}},
    }
}

_IMPORT_ERRORS = responses(
    errors.ModelNotFoundError,
    *input_errors.CONTEXT_ERRORS,
    *actions.REQUEST_ERRORS,
    input_errors.UnknownLabelError,
    input_errors.RetiredLabelError,
    input_errors.EligibleError,
    input_errors.BaselineNeededError,
    input_errors.MissingFieldError,
    input_errors.InconsistentFeedbackError,
    input_errors.LabelNeededError,
    input_errors.RewardNotAloneError,
    input_errors.RewardNotAcceptedError,
    input_errors.BatchTooLargeError,
    errors.ImportPositionError,
    errors.LearnerFailedError,
    errors.NewerVersionError,
    errors.StoreFullError,
    errors.StoreCorruptError,
)


def router(catalogue: Catalogue, imports: RoundImporter, compute: Compute) -> APIRouter:
    """Return the routes that read logs and the progress of imports.

    Args:
        catalogue: reads the logs.
        imports: knows the progress.
        compute: encodes many lines.
    """
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get("/models/{name}/rounds", response_class=StreamingResponse, responses=_RESPONSES)
    async def list_rounds(
        name: Name,
        after: Annotated[int, Query(ge=0, le=2**53, description="The number of the last round already read.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum rounds on a page.")] = 1000,
    ) -> StreamingResponse:
        """Read the log, oldest round first. Use the last line's `round` as `after` for the next page."""
        parts = await catalogue.rounds(name, after, limit)
        return StreamingResponse(_written(parts, compute), media_type=_NDJSON)

    @routes.get(
        "/models/{name}/imports",
        responses=responses(errors.ModelNotFoundError, errors.StoreCorruptError),
    )
    async def list_imports(name: Name) -> ImportList:
        """Read how much of each source has been imported, for the last 100 sources."""
        return await imports.sources(name)

    return routes


def import_router(imports: RoundImporter, max_items: int) -> APIRouter:
    """Return the route that imports rounds.

    Args:
        imports: imports the rounds.
        max_items: maximum rounds in a request.
    """
    routes = APIRouter(tags=["models"], route_class=JsonRoute)

    @routes.post("/models/{name}/rounds", responses=_IMPORT_ERRORS)
    async def import_rounds(name: Name, request: ImportRequest) -> ImportAnswer:
        """Append complete rounds from elsewhere to the log, each exactly once. A repeat imports nothing again."""
        check_size(len(request.rounds), max_items, "rounds")
        return await imports.add(name, request)

    return routes


async def _written(parts: AsyncIterator[Sequence[RoundLine]], compute: Compute) -> AsyncIterator[bytes]:
    async for lines in parts:
        yield await compute.run_costly(_COST_PER_LINE * len(lines), "", _dumped, lines)


def _dumped(lines: Sequence[RoundLine]) -> bytes:
    return "".join([line.model_dump_json() + "\n" for line in lines]).encode()
