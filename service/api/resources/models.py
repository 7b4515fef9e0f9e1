"""`/models`: create, list, read, delete."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from service import errors
from service.api.middleware.access import check_new_model, own_names
from service.api.responses.bodies import answer_with
from service.api.responses.direct_route import DirectRoute
from service.api.responses.problems import problem_of, responses
from service.api.responses.strict_route import StrictRoute
from service.catalogue.catalogue import Catalogue
from service.schemas.models import (
    ModelAnswer,
    ModelDefinition,
    ModelList,
    ModelSummary,
    UnreadableModel,
)
from service.store.stored_models import UnreadModel
from service.wording.patterns import CURSOR, NAME

Name = Annotated[str, Path(pattern=NAME, description="The model's name.")]


class CreatedRoute(DirectRoute):
    """A route that creates a model and returns its location in a header."""

    def answer_headers(self, answer: ModelAnswer) -> dict[str, str]:
        """See `DirectRoute.answer_headers`."""
        return {"Location": f"/models/{answer.name}"}


def router(catalogue: Catalogue) -> APIRouter:
    """Return the routes of models."""
    routes = APIRouter()
    routes.include_router(_creation(catalogue))
    routes.include_router(_reading(catalogue))
    return routes


def _creation(catalogue: Catalogue) -> APIRouter:
    routes = APIRouter(prefix="/models", tags=["models"], route_class=CreatedRoute)

    @routes.post(
        "",
        status_code=201,
        responses=responses(
            errors.ModelExistsError,
            errors.UnknownAlgorithmError,
            errors.HyperparameterError,
            errors.ModelTooLargeError,
            errors.ModelTooCostlyError,
            errors.StoreFullError,
        ),
    )
    async def create_model(definition: ModelDefinition) -> ModelAnswer:
        """Create a model."""
        check_new_model(definition.name)
        return await catalogue.create(definition)

    return routes


def _reading(catalogue: Catalogue) -> APIRouter:
    routes = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute)

    @routes.get("", responses=responses())
    async def list_models(
        cursor: Annotated[str, Query(pattern=CURSOR, description="The `next_cursor` of the previous page.")] = "",
        limit: Annotated[int, Query(ge=1, le=1000, description="Maximum models on a page.")] = 100,
    ) -> ModelList:
        """List the models that the API key allows, a page at a time, ordered by name."""
        page = await catalogue.page(cursor, limit, own_names())
        return ModelList(models=[_listed(item) for item in page.models], next_cursor=page.next_cursor)

    @routes.get(
        "/{name}",
        response_model=ModelAnswer,
        responses=responses(errors.ModelNotFoundError, errors.NewerVersionError, errors.StoreCorruptError),
    )
    async def get_model(name: Name, request: Request) -> Response:
        """Return a model: its definition, its counts, and its guarantee."""
        return await answer_with(request, await catalogue.get(name))

    @routes.delete("/{name}", status_code=204, responses=responses(errors.ModelNotFoundError))
    async def delete_model(name: Name) -> None:
        """Delete a model and its log. Its open predictions no longer accept feedback."""
        await catalogue.delete(name)

    return routes


def _listed(item: ModelSummary | UnreadModel) -> ModelSummary | UnreadableModel:
    return UnreadableModel(name=item.name, problem=problem_of(item.error)) if isinstance(item, UnreadModel) else item
