"""`POST /models/{name}/explain`: how a model sees a context."""

from fastapi import APIRouter

from service import errors, input_errors
from service.actions import errors as actions
from service.api.resources.models import Name
from service.api.responses.json_route import JsonRoute
from service.api.responses.problems import responses
from service.rounds.use_cases import RoundService
from service.schemas.reports.explanations import ExplainAnswer, ExplainRequest


def router(rounds: RoundService) -> APIRouter:
    """Return the route of explanations."""
    routes = APIRouter(tags=["models"], route_class=JsonRoute)

    @routes.post(
        "/models/{name}/explain",
        responses=responses(
            errors.ModelNotFoundError,
            *input_errors.CONTEXT_ERRORS,
            *actions.READING_ERRORS,
            input_errors.BatchTooLargeError,
            errors.NewerVersionError,
            errors.StoreCorruptError,
        ),
    )
    async def explain(name: Name, request: ExplainRequest) -> ExplainAnswer:
        """Show the vector that the learner sees, and what each feature adds to the score of each label or action."""
        return await rounds.explain(name, request)

    return routes
