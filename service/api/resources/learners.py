"""`GET /learners`: the learners that a model can use."""

from fastapi import APIRouter

from service.api.responses.strict_route import StrictRoute
from service.catalogue.catalogue import describe_learners
from service.schemas.learners import LearnerList


def router() -> APIRouter:
    """Return the route of learners."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)
    described = describe_learners()

    @routes.get("/learners")
    async def list_learners() -> LearnerList:
        """List the learners, their guarantees, and the JSON Schemas of their hyperparameters."""
        return described

    return routes
