"""`GET /models/{name}/predictions`: the predictions of a model that have no round yet."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from service import errors
from service.api.resources.models import Name
from service.api.responses.problems import responses
from service.api.responses.strict_route import StrictRoute
from service.catalogue.catalogue import Catalogue
from service.schemas.rounds import PredictionLine
from service.wording.patterns import SCAN_CURSOR

_NDJSON = "application/x-ndjson"
_SCHEMA = PredictionLine.model_json_schema(ref_template="#/components/schemas/{model}")
_SCHEMA.pop("$defs", None)  # openapi.json lists them among its components
_LINK = 'The next page, as `<path>; rel="next"`; absent on the last page.'
_RESPONSES = responses(errors.ModelNotFoundError, errors.StoreCorruptError) | {
    200: {
        "description": "One `PredictionLine` in JSON per line.",
        "headers": {"Link": {"description": _LINK, "schema": {"type": "string"}}},
        "content": {_NDJSON: {"schema": _SCHEMA}},
    }
}


def router(catalogue: Catalogue) -> APIRouter:
    """Return the route of open predictions."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get("/models/{name}/predictions", response_class=Response, responses=_RESPONSES)
    async def list_predictions(
        name: Name,
        cursor: Annotated[str, Query(pattern=SCAN_CURSOR, description="The `cursor` of the previous `Link`.")] = "",
        limit: Annotated[int, Query(ge=1, le=1000, description="Predictions on a page, about.")] = 100,
    ) -> Response:
        """List the predictions that have no round yet, in no particular order.

        Follow the `Link` header until it is absent. The pages together have every prediction that is open throughout
        the listing; one that is made or closed during it may be missing, or occur twice. A page may be empty.
        """
        page = await catalogue.predictions(name, cursor, limit)
        body = "".join([line.model_dump_json() + "\n" for line in page.lines])
        following = f"/models/{name}/predictions?cursor={page.next_cursor}&limit={limit}"
        link = {} if page.next_cursor is None else {"Link": f'<{following}>; rel="next"'}
        return Response(body, media_type=_NDJSON, headers=link)

    return routes
