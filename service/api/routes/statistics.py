"""`GET /models/{name}/statistics`, `GET /statistics`, `GET /models/{name}/evaluation`."""

import hashlib
import re
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from service import errors
from service.analytics.evaluation import MOST_ROUNDS, LatestRounds
from service.analytics.statistics import StatisticsReports
from service.api.middleware.access import own_names
from service.api.responses.problems import responses
from service.api.responses.routes import StrictRoute
from service.api.routes.models import Cursor, Name, Search, SortBy, readable
from service.json_values import JsonObject
from service.registry.catalogue import Query as ListQuery
from service.schemas.reports import EvaluationAnswer
from service.schemas.statistics import StatisticsAnswer, StatisticsList

IfNoneMatch = Annotated[
    str | None,
    Header(description="The ETag of the last response; if it is still current, the response is 304 without a body."),
]

_TAG = re.compile(r'"[\x21\x23-\x7e]*"')
_UNCHANGED: dict[int | str, JsonObject] = {304: {"description": "The answer has not changed."}}


def router(reports: StatisticsReports) -> APIRouter:
    """Return the routes of statistics."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get(
        "/models/{name}/statistics",
        response_model=StatisticsAnswer,
        responses=_UNCHANGED | responses(*errors.READING_ERRORS),
    )
    async def read_statistics(name: Name, request: Request, if_none_match: IfNoneMatch = None) -> Response:
        """Return the rewards, labels, exploration and verdict of a model.

        The cost does not depend on the length of the log. Workers publish the sums every few seconds; `fold_lag` is
        the number of rounds that the sums do not include yet.
        """
        return _conditional(request, await reports.read(name))

    @routes.get("/statistics", response_model=StatisticsList, responses=_UNCHANGED | responses())
    async def list_statistics(
        request: Request,
        *,
        search: Search = "",
        sort: SortBy = "name",
        cursor: Cursor = "",
        limit: Annotated[int, Query(ge=1, le=200, description="Maximum models on a page.")] = 100,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """List the models that the API key allows, with a summary of their statistics, as `GET /models` does.

        `trouble` begins with unreadable models, then those with damaged rounds, then those with the verdicts `dropped`,
        `collapsed` and `at_chance`, then those whose statistics lack many rounds. For each list, a worker reads 500
        models again. With more models, it sorts and counts those that have changed a little later.
        """
        page = await reports.page(ListQuery(search, sort, cursor, limit), own_names())
        answer = StatisticsList(**page._asdict() | {"models": list(map(readable, page.models))})
        return _conditional(request, answer.model_dump_json().encode())

    return routes


def evaluation_router(latest: LatestRounds) -> APIRouter:
    """Return the route of evaluations."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get(
        "/models/{name}/evaluation",
        responses=responses(
            *(errors.ModelNotFoundError, errors.StoreCorruptError, errors.NotEvaluableError),
            errors.LearnerNotReadyError,
        ),
    )
    async def evaluate_model(
        name: Name,
        rounds: Annotated[int, Query(ge=1, le=MOST_ROUNDS, description="The number of latest rounds to read.")] = 10**4,
    ) -> EvaluationAnswer:
        """Compare the served policy with the uniform one and the best constant label, by importance weights.

        `wager evaluate` compares other learners and policies, with more estimators.
        """
        return await latest.evaluate(name, rounds)

    return routes


def _conditional(request: Request, body: bytes) -> Response:
    """Return a JSON body with its ETag, or 304 if `If-None-Match` contains that ETag."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}  # not the observer's `no-store`, which forbids caching
    given = ",".join(request.headers.getlist("if-none-match"))
    if given.strip() == "*" or tag in _TAG.findall(given):
        return Response(None, 304, headers)
    return Response(body, 200, headers, "application/json")
