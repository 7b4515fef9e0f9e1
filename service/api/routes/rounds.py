"""`/models/{name}/rounds`, `/imports` and `/predictions`: the log of a model, its imports and open predictions."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from service import costs, errors
from service.api.responses.batches import check_size
from service.api.responses.problems import responses
from service.api.responses.routes import JsonRoute, StrictRoute
from service.api.routes.models import Name
from service.compute import Compute
from service.error_messages.patterns import SCAN_CURSOR
from service.registry.registry import ModelRegistry
from service.rounds.importer import RoundImporter
from service.schemas.rounds import ImportAnswer, ImportList, ImportRequest, PredictionLine, RoundLine

_NDJSON = "application/x-ndjson"
_SCHEMA = RoundLine.model_json_schema(ref_template="#/components/schemas/{model}")
_DEFINED = _SCHEMA.pop("$defs")  # openapi.json has these definitions, except `LoggedAction`
_SCHEMA["properties"]["actions"]["anyOf"][0]["items"] = _DEFINED["LoggedAction"]
_RESPONSES = responses(*errors.READING_ERRORS) | {
    200: {"description": "One `RoundLine` in JSON per line.", "content": {_NDJSON: {"schema": _SCHEMA}}}
}

_IMPORT_ERRORS = responses(
    *(*errors.WRITING_ERRORS, *errors.REQUEST_ERRORS, *errors.OUTCOME_ERRORS),
    *(errors.BatchTooLargeError, errors.ImportPositionError),
)


def router(registry: ModelRegistry, imports: RoundImporter, compute: Compute) -> APIRouter:
    """Return the routes that read logs and the progress of imports."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get("/models/{name}/rounds", response_class=StreamingResponse, responses=_RESPONSES)
    async def list_rounds(
        name: Name,
        after: Annotated[int, Query(ge=0, le=2**53, description="The number of the last round already read.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum rounds on a page.")] = 1000,
    ) -> StreamingResponse:
        """Read the log, oldest round first. Use the last line's `round` as `after` for the next page."""
        parts = await registry.rounds(name, after, limit)
        return StreamingResponse(_written(parts, compute), media_type=_NDJSON)

    @routes.get("/models/{name}/imports", responses=responses(errors.ModelNotFoundError, errors.StoreCorruptError))
    async def list_imports(name: Name) -> ImportList:
        """Read how much of each source has been imported, for the last 100 sources."""
        return await imports.sources(name)

    return routes


def import_router(imports: RoundImporter, max_items: int) -> APIRouter:
    """Return the route that imports rounds."""
    routes = APIRouter(tags=["models"], route_class=JsonRoute)

    @routes.post("/models/{name}/rounds", responses=_IMPORT_ERRORS)
    async def import_rounds(name: Name, request: ImportRequest) -> ImportAnswer:
        """Append complete rounds from elsewhere to the log, each exactly once. Repeating the request adds nothing."""
        check_size(len(request.rounds), max_items, "rounds")
        return await imports.add(name, request)

    return routes


async def _written(parts: AsyncIterator[Sequence[RoundLine]], compute: Compute) -> AsyncIterator[bytes]:
    async for lines in parts:
        yield await compute.run_in_thread_if_costly(costs.PRINTED_ROUND * len(lines), "", _dumped, lines)


def _dumped(lines: Sequence[RoundLine] | Sequence[PredictionLine]) -> bytes:
    return "".join([line.model_dump_json() + "\n" for line in lines]).encode()


_OPEN_SCHEMA = PredictionLine.model_json_schema(ref_template="#/components/schemas/{model}")
_OPEN_SCHEMA.pop("$defs", None)  # openapi.json has these definitions
_LINK = 'The next page, as `<path>; rel="next"`; absent on the last page.'
_OPEN_RESPONSES = responses(errors.ModelNotFoundError, errors.StoreCorruptError) | {
    200: {
        "description": "One `PredictionLine` in JSON per line.",
        "headers": {"Link": {"description": _LINK, "schema": {"type": "string"}}},
        "content": {_NDJSON: {"schema": _OPEN_SCHEMA}},
    }
}


def open_predictions_router(registry: ModelRegistry) -> APIRouter:
    """Return the route of open predictions."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get("/models/{name}/predictions", response_class=Response, responses=_OPEN_RESPONSES)
    async def list_predictions(
        name: Name,
        request: Request,
        cursor: Annotated[str, Query(pattern=SCAN_CURSOR, description="The `cursor` of the previous `Link`.")] = "",
        limit: Annotated[
            int, Query(ge=1, le=1000, description="The approximate number of predictions on a page.")
        ] = 100,
    ) -> Response:
        """List the predictions that have no round yet, in no particular order.

        Follow the `Link` header until it is absent. Together, the pages contain every readable prediction that is open
        throughout the listing, some perhaps twice. A prediction that is made or closed in the meantime may be missing.
        A page may be empty.
        """
        page = await registry.predictions(name, cursor, limit)
        root = request.scope.get("root_path", "")
        following = f"{root}/models/{name}/predictions?cursor={page.next_cursor}&limit={limit}"
        link = {} if page.next_cursor is None else {"Link": f'<{following}>; rel="next"'}
        return Response(_dumped(page.lines), media_type=_NDJSON, headers=link)

    return routes
