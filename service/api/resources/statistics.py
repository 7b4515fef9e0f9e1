"""`GET /models/{name}/statistics` and `GET /statistics`: what the rounds of models say."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from service import errors
from service.api.middleware.access import own_names
from service.api.resources.models import Name
from service.api.responses.conditional import conditional
from service.api.responses.problems import problem_of, responses
from service.api.responses.strict_route import StrictRoute
from service.insight.insights import Insights
from service.schemas.models import UnreadableModel
from service.schemas.reports.statistics import StatisticsAnswer, StatisticsList
from service.store.stored_models import UnreadModel
from service.wording.patterns import CURSOR

IfNoneMatch = Annotated[
    str | None, Header(description="The ETag of the last answer: an equal one is answered with 304, without a body.")
]

_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "The answer has not changed."}}


def router(insights: Insights) -> APIRouter:
    """Return the routes of statistics."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get(
        "/models/{name}/statistics",
        response_model=StatisticsAnswer,
        responses=_UNCHANGED | responses(errors.ModelNotFoundError, errors.NewerVersionError, errors.StoreCorruptError),
    )
    async def read_statistics(name: Name, request: Request, if_none_match: IfNoneMatch = None) -> Response:  # noqa: ARG001
        """Return the rewards, labels, exploration and verdict of a model.

        The cost does not depend on the length of the log. Workers publish the sums every few seconds; `fold_lag` says
        how many rounds they lack.
        """
        return conditional(request, await insights.read(name))

    @routes.get("/statistics", response_model=StatisticsList, responses=_UNCHANGED | responses())
    async def list_statistics(
        request: Request,
        cursor: Annotated[str, Query(pattern=CURSOR, description="The `next_cursor` of the previous page.")] = "",
        limit: Annotated[int, Query(ge=1, le=200, description="Maximum models on a page.")] = 100,
        if_none_match: IfNoneMatch = None,  # noqa: ARG001
    ) -> Response:
        """List the models that the API key allows, with the essence of their statistics, ordered by name."""
        page = await insights.page(cursor, limit, own_names())
        models = [
            UnreadableModel(name=item.name, problem=problem_of(item.error)) if isinstance(item, UnreadModel) else item
            for item in page.models
        ]
        answer = StatisticsList(models=models, next_cursor=page.next_cursor)
        return conditional(request, answer.model_dump_json().encode())

    return routes
