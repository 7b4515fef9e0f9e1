"""`GET /models/{name}/rounds`: the log of a model."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from service import errors
from service.api.resources.models import Name
from service.api.responses.problems import responses
from service.api.responses.strict_route import StrictRoute
from service.catalogue.catalogue import Catalogue
from service.compute import Compute
from service.schemas.rounds import RoundLine

_COST_PER_LINE = 20_000  # cost of writing a line, in multiply-adds
_NDJSON = "application/x-ndjson"
_SCHEMA = RoundLine.model_json_schema(ref_template="#/components/schemas/{model}")
_DEFINED = _SCHEMA.pop("$defs")  # openapi.json lists them among its components, except the following one
_SCHEMA["properties"]["actions"]["anyOf"][0]["items"] = _DEFINED["LoggedAction"]
_RESPONSES = responses(errors.ModelNotFoundError, errors.StoreCorruptError) | {
    200: {
        "description": "One `RoundLine` in JSON per line.",
        "content": {_NDJSON: {"schema": _SCHEMA}},
    }
}


def router(catalogue: Catalogue, compute: Compute) -> APIRouter:
    """Return the route of logs.

    Args:
        catalogue: reads the logs.
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

    return routes


async def _written(parts: AsyncIterator[Sequence[RoundLine]], compute: Compute) -> AsyncIterator[bytes]:
    async for lines in parts:
        yield await compute.run_costly(_COST_PER_LINE * len(lines), "", _dumped, lines)


def _dumped(lines: Sequence[RoundLine]) -> bytes:
    return "".join([line.model_dump_json() + "\n" for line in lines]).encode()
