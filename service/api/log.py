"""`GET /models/{name}/rounds`: a model's log."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from service import errors
from service.api.models import Name
from service.api.problems import responses
from service.catalogue import Catalogue
from service.schemas import RoundLine

_NDJSON = "application/x-ndjson"
_SCHEMA = RoundLine.model_json_schema(ref_template="#/components/schemas/{model}")
_SCHEMA.pop("$defs", None)  # the components of the whole document have them
_RESPONSES = responses(errors.ModelNotFoundError, errors.StoreCorruptError) | {
    200: {
        "description": "A `RoundLine` in JSON on each line.",
        "content": {_NDJSON: {"schema": _SCHEMA}},
    }
}


def router(catalogue: Catalogue) -> APIRouter:
    """The route of logs."""
    routes = APIRouter(tags=["models"])

    @routes.get("/models/{name}/rounds", response_class=StreamingResponse, responses=_RESPONSES)
    async def list_rounds(
        name: Name,
        after: Annotated[int, Query(ge=0, le=2**53, description="The number of the last round already read.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="Most rounds on a page.")] = 1000,
    ) -> StreamingResponse:
        """Reads the log, oldest round first. The last line's `round` is the `after` of the next page."""
        return StreamingResponse(_lines(await catalogue.rounds(name, after, limit)), media_type=_NDJSON)

    return routes


def _lines(rounds: Iterator[RoundLine]) -> Iterator[str]:
    return (line.model_dump_json() + "\n" for line in rounds)
