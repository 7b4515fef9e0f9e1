"""`GET /learners`: what a model can be made of."""

from fastapi import APIRouter

from service.api.responses.strict_route import StrictRoute
from service.catalogue.catalogue import describe_learners
from service.schemas.learners import LearnerList


def router() -> APIRouter:
    """The route of learners."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)
    described = describe_learners()

    @routes.get("/learners")
    async def list_learners() -> LearnerList:
        """Lists the learners, their guarantees, and the JSON Schema of their hyperparameters."""
        return described

    return routes
