"""`GET /models/{name}/evaluation`: what other policies would have got on the latest rounds."""

from typing import Annotated

from fastapi import APIRouter, Query

from service import errors, input_errors
from service.api.resources.models import Name
from service.api.responses.problems import responses
from service.api.responses.strict_route import StrictRoute
from service.evaluation.latest import MOST_ROUNDS, LatestRounds
from service.schemas.reports.evaluation import EvaluationAnswer

_RESPONSES = responses(errors.ModelNotFoundError, errors.StoreCorruptError, input_errors.NotEvaluableError)


def router(latest: LatestRounds) -> APIRouter:
    """Return the route of evaluations."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get("/models/{name}/evaluation", responses=_RESPONSES)
    async def evaluate_model(
        name: Name,
        rounds: Annotated[
            int, Query(ge=1, le=MOST_ROUNDS, description="The number of latest rounds to read.")
        ] = 10_000,
    ) -> EvaluationAnswer:
        """Compare the served policy with the uniform one and the best constant label, by importance weights.

        `wager evaluate` compares other learners and policies, with more estimators.
        """
        return await latest.evaluate(name, rounds)

    return routes
