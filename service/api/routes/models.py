"""`/models`: create, list, read, change, delete; `GET /learners`."""

import re
from typing import Annotated, TypeVar

from fastapi import APIRouter, Header, Path, Query, Request, Response

from service import errors
from service.api.middleware.access import caller_id, check_new_model, own_names, own_quota
from service.api.responses.bodies import answer_with
from service.api.responses.problems import problem_of, responses
from service.api.responses.routes import JsonRoute, StrictRoute
from service.compute import Compute
from service.error_messages.patterns import CURSOR, MOST_MODEL_NAME, NAME
from service.error_messages.values import quoted
from service.registry.catalogue import Catalogue, Sort
from service.registry.catalogue import Query as ListQuery
from service.registry.descriptions import Described
from service.registry.registry import ModelRegistry, describe_learners, listed_answer
from service.schemas import models as schemas
from service.store.stored_models import UnreadModel

Name = Annotated[str, Path(pattern=NAME, description="The model's name.")]

IfMatch = Annotated[
    str | None,
    Header(description="Required: the ETag of the model, as `GET /models/{name}` returns it, or `*` for any."),
]

Search = Annotated[
    str, Query(max_length=MOST_MODEL_NAME, description="A part of the names to list, in upper or lower case.")
]

SortBy = Annotated[
    Sort,
    Query(
        description="`name`; `traffic`: the most predictions first, where the weight of a prediction halves every day; "
        "`reward`: the highest mean reward of the latest rounds first; `trouble`: first the models that need attention."
    ),
]

Cursor = Annotated[
    str, Query(pattern=CURSOR, description="The `next_cursor` of the previous page, with the same `sort`.")
]

_ItemT = TypeVar("_ItemT")
_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"')


class CreatedRoute(JsonRoute):
    """A route that creates a model. Its function returns `Described`."""

    def represent(self, answer: Described, root: str) -> tuple[schemas.ModelAnswer, dict[str, str]]:
        return answer.answer, created_headers(answer, root)


def created_headers(created: Described, root: str) -> dict[str, str]:
    """Return the headers of the response that creates a model: its location and the ETag of its definition."""
    return {"Location": f"{root}/models/{created.answer.name}", "ETag": f'"{created.version}"'}


async def answer_described(request: Request, described: Described) -> Response:
    """Return the response with a model and the ETag of its definition."""
    return await answer_with(request, described.answer, headers={"ETag": f'"{described.version}"'})


def router(registry: ModelRegistry, catalogue: Catalogue) -> APIRouter:
    """Return the routes of models."""
    others = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute)
    _add_reading(others, registry, catalogue)
    _add_changes(others, registry)
    routes = APIRouter()
    routes.include_router(_creation(registry))
    routes.include_router(others)
    return routes


def _creation(registry: ModelRegistry) -> APIRouter:
    routes = APIRouter(prefix="/models", tags=["models"], route_class=CreatedRoute)

    @routes.post(
        "",
        status_code=201,
        response_model=schemas.ModelAnswer,
        responses=responses(
            *(errors.ModelExistsError, errors.LabelsOrActionsError, errors.ActionLearnerError, errors.StoreFullError),
            *(errors.TooManyModelsError, errors.MissingFieldError, errors.UnknownLabelError, errors.NamespaceError),
            *errors.LEARNER_ERRORS,
        ),
    )
    async def create_model(definition: schemas.ModelDefinition) -> Described:
        """Create a model. The ETag identifies its definition; `PATCH` needs it."""
        check_new_model(definition.name)
        return await registry.create(definition, own_quota())

    return routes


def _add_reading(routes: APIRouter, registry: ModelRegistry, catalogue: Catalogue) -> None:
    @routes.get("", responses=responses())
    async def list_models(
        search: Search = "",
        sort: SortBy = "name",
        cursor: Cursor = "",
        limit: Annotated[int, Query(ge=1, le=1000, description="Maximum models on a page.")] = 100,
    ) -> schemas.ModelList:
        """List the models that the API key allows, a page at a time.

        If models change their places between two requests, pages may repeat or omit them, but no others.
        """
        page = await catalogue.page(ListQuery(search, sort, cursor, limit), own_names())
        models = [
            each if isinstance(each, UnreadModel) else listed_answer(each.listed, each.summary) for each in page.models
        ]
        return schemas.ModelList(models=list(map(readable, models)), next_cursor=page.next_cursor, total=page.total)

    @routes.get("/{name}", response_model=schemas.ModelAnswer, responses=responses(*errors.READING_ERRORS))
    async def get_model(name: Name, request: Request) -> Response:
        """Return a model: its definition, its counts, and its guarantee.

        The ETag identifies the definition, not the counts. `PATCH` needs it.
        """
        return await answer_described(request, await registry.get(name))

    @routes.delete(
        "/{name}",
        status_code=204,
        responses=responses(errors.ModelNotFoundError, errors.PreconditionFailedError, errors.StoreCorruptError),
    )
    async def delete_model(
        name: Name,
        if_match: Annotated[
            str | None, Header(description="The ETag of the model to delete, in case somebody changes or replaces it.")
        ] = None,
    ) -> None:
        """Delete a model and its log. Its open predictions accept no more feedback, and a worker erases them soon."""
        await registry.delete(name, ["*"] if if_match is None else versions_in(if_match))


def _add_changes(routes: APIRouter, registry: ModelRegistry) -> None:
    @routes.get("/{name}/changes", response_model=schemas.ChangeList, responses=responses(*errors.READING_ERRORS))
    async def list_changes(
        name: Name,
        request: Request,
        after: Annotated[int, Query(ge=0, le=2**53, description="The number of the last change already read.")] = 0,
        limit: Annotated[int, Query(ge=1, le=1000, description="Maximum changes on a page.")] = 100,
    ) -> Response:
        """Read the changes of a model, oldest first. Use `next_after` as `after` for the next page."""
        return await answer_with(request, await registry.changes(name, after, limit))

    @routes.patch(
        "/{name}",
        response_model=schemas.ModelAnswer,
        responses=responses(
            *(errors.UnknownLabelError, errors.RetiredLabelError, errors.DuplicateLabelsError, errors.LabelsFixedError),
            *(errors.TooFewLabelsError, errors.MissingFieldError, *errors.CHANGE_ERRORS, *errors.FIT_ERRORS),
        ),
    )
    async def change_model(
        name: Name, patch: schemas.ModelPatch, request: Request, if_match: IfMatch = None
    ) -> Response:
        """Change the labels or the policies of a model. Later predictions follow the change.

        Repeating the last change with the same `If-Match`, for example after a lost response, returns its result.
        """
        return await answer_described(request, await registry.change(name, patch, versions_in(if_match), caller_id()))


def versions_in(if_match: str | None) -> list[str]:
    """Return the versions in If-Match, or only `*`. Omits weak tags, which match none (RFC 9110, section 13.1.1).

    Raises PreconditionRequiredError if the header is missing, PreconditionFailedError if it contains no ETag.
    """
    if if_match is None:
        detail = "missing; send the ETag that GET /models/{name} returned, so that no other change is overwritten"
        raise errors.PreconditionRequiredError(detail, "If-Match")
    if if_match.strip() == "*":
        return ["*"]
    tags = _TAG.findall(if_match)
    if not tags:
        detail = (
            f"got {quoted(if_match)}; must be an ETag with its double quotes, as GET /models/{{name}} returned it, or *"
        )
        raise errors.PreconditionFailedError(detail, "If-Match")
    return [tag for weak, tag in tags if not weak and tag != "*"]  # a quoted * is not a wildcard


def readable(item: _ItemT | UnreadModel) -> _ItemT | schemas.UnreadableModel:
    """Return an item of a list of models: the model or, if it cannot be read, its name and the problem."""
    if isinstance(item, UnreadModel):
        return schemas.UnreadableModel(name=item.name, problem=problem_of(item.error))
    return item


def learners_router(compute: Compute) -> APIRouter:
    """Return the route of learners."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)

    @routes.get("/learners")
    async def list_learners() -> schemas.LearnerList:
        """List the learners, their guarantees, and the JSON Schemas of their hyperparameters."""
        return await compute.run("", describe_learners)  # the first call takes 0.1 s

    return routes
