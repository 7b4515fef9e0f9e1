"""`/models`: create, list, read, delete, and read the log."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse

from service import errors
from service.api.problems import responses
from service.catalogue import Catalogue
from service.schemas import NAME_PATTERN, ModelAnswer, ModelDefinition, ModelList, RoundLine

_Name = Annotated[str, Path(pattern=NAME_PATTERN, description="The model's name.")]
_NDJSON = "application/x-ndjson"
_ROUNDS = responses(errors.ModelNotFoundError) | {
    200: {
        "description": "A `RoundLine` in JSON on each line.",
        "content": {_NDJSON: {"schema": RoundLine.model_json_schema()}},
    }
}


def router(catalogue: Catalogue) -> APIRouter:
    """The routes of models."""
    routes = APIRouter(prefix="/models", tags=["models"])

    @routes.post(
        "",
        status_code=201,
        responses=responses(
            errors.ModelExistsError,
            errors.UnknownAlgorithmError,
            errors.HyperparameterError,
            errors.ModelTooLargeError,
            errors.StoreFullError,
        ),
    )
    async def create_model(definition: ModelDefinition, response: Response) -> ModelAnswer:
        """Creates a model."""
        response.headers["Location"] = f"/models/{definition.name}"
        return await catalogue.create(definition)

    @routes.get("", responses=responses())
    async def list_models(
        cursor: Annotated[str, Query(pattern=f"^$|{NAME_PATTERN}", description="As the last page gave it.")] = "",
        limit: Annotated[int, Query(ge=1, le=1000, description="Most models on a page.")] = 100,
    ) -> ModelList:
        """Lists the models by name, a page at a time."""
        return await catalogue.list(cursor, limit)

    @routes.get("/{name}", responses=responses(errors.ModelNotFoundError))
    async def get_model(name: _Name) -> ModelAnswer:
        """Describes a model, and tells how many rounds it has seen."""
        return await catalogue.get(name)

    @routes.delete("/{name}", status_code=204, responses=responses(errors.ModelNotFoundError))
    async def delete_model(name: _Name) -> None:
        """Deletes a model with its log. Predictions of it that are open get no feedback any more."""
        await catalogue.delete(name)

    @routes.get("/{name}/rounds", response_class=StreamingResponse, responses=_ROUNDS)
    async def list_rounds(
        name: _Name,
        after: Annotated[int, Query(ge=0, le=2**53, description="The number of the last round already read.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="Most rounds on a page.")] = 1000,
    ) -> StreamingResponse:
        """Reads the log, oldest round first. The last line's `round` is the `after` of the next page."""
        return StreamingResponse(_lines(await catalogue.rounds(name, after, limit)), media_type=_NDJSON)

    return routes


def _lines(rounds: Iterator[RoundLine]) -> Iterator[str]:
    return (line.model_dump_json() + "\n" for line in rounds)
