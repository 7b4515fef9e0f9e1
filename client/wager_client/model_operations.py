"""The requests that concern models and the service as a whole."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from wager_client import checks
from wager_client.operation import Answer, Operation, answer_as, given, list_in, problem_in
from wager_client.reading import read
from wager_client.results import Explanation, Health, Json, Model, ModelSummary, Round


def create_model(definition: Mapping[str, Any]) -> Operation[Model]:
    """Return the request that creates a model. Its repeat would be refused, as the model exists."""
    checks.model_name(definition.get("name"))
    return Operation("POST", "/models", _model, dict(definition), repeatable=False)


def get_model(name: str) -> Operation[Model]:
    """Return the request for a model."""
    return Operation("GET", _path(name), _model)


def _model(answer: Answer) -> Model:
    return read(Model, answer.json(), etag=answer.headers.get("etag"))


class ModelPage(NamedTuple):
    """A page of models."""

    models: list[ModelSummary]
    next_cursor: str | None


def list_models(cursor: str, limit: int) -> Operation[ModelPage]:
    """Return the request for a page of models."""
    return Operation("GET", "/models", _page, params={"cursor": cursor, "limit": str(limit)})


def _page(answer: Answer) -> ModelPage:
    body = answer.json()
    return ModelPage([_summary(each) for each in list_in(body, "models")], body.get("next_cursor"))


def _summary(body: Json) -> ModelSummary:
    problem = body.get("problem")
    return read(ModelSummary, body, problem=None if problem is None else problem_in(problem))


def change_model(model: Model | str, changes: Mapping[str, Any], etag: str | None) -> Operation[Model]:
    """Return the request that changes a model.

    Raises:
        ValueError: without an ETag.
        TypeError: if the model is neither a model nor a name, or the changes are no object.
    """
    if not isinstance(model, str | Model):
        raise checks.wrong("model", model, "a model from `get_model`, or its name")
    checks.mapping("changes", changes)
    name, tag = (model, etag) if isinstance(model, str) else (model.name, etag or model.etag)
    if tag is None:
        raise ValueError("change_model needs the model of get_model, or its etag; '*' overwrites any change")
    headers = {"If-Match": tag}
    return Operation("PATCH", _path(name), _model, dict(changes), headers, repeatable=tag != "*")


def delete_model(name: str) -> Operation[None]:
    """Return the request that deletes a model. A repeat could delete another one of the same name."""
    return Operation("DELETE", _path(name), lambda _: None, repeatable=False)


def explain(name: str, context: Any, actions: Any) -> Operation[Explanation]:
    """Return the request that explains a context."""
    return Operation("POST", f"{_path(name)}/explain", answer_as(Explanation), given(context=context, actions=actions))


def rounds(name: str, after: int, limit: int) -> Operation[list[Round]]:
    """Return the request for a page of rounds."""
    params = {"after": str(after), "limit": str(limit)}
    return Operation(
        "GET", f"{_path(name)}/rounds", lambda answer: [read(Round, line) for line in answer.lines()], params=params
    )


def health() -> Operation[Health]:
    """Return the request that asks whether the service is ready."""
    return Operation("GET", "/readyz", answer_as(Health))


def request(
    method: str, path: str, body: Any, *, params: Mapping[str, Any], headers: Mapping[str, str], repeatable: bool | None
) -> Operation[Any]:
    """Return a request that has no function here. By default, it may be repeated if it only reads.

    Raises:
        ValueError: if the path does not begin with a slash.
        TypeError: if an argument has another type.
    """
    checks.text("method", method, "a method such as GET")
    if not checks.text("path", path, "a path such as /models/news/statistics").startswith("/"):
        raise ValueError(f"got the path {path!r}; must begin with a slash, such as /models/news/statistics")
    may_repeat = method.upper() in ("GET", "HEAD") if repeatable is None else repeatable
    texts = {name: str(value) for name, value in checks.mapping("params", params).items()}
    return Operation(method.upper(), path, _anything, body, checks.mapping("headers", headers), texts, may_repeat)


def _anything(answer: Answer) -> Any:
    """Return the JSON value of an answer; its bytes if it is not JSON, and None if it is empty."""
    if not answer.content:
        return None
    return answer.json() if "json" in answer.headers.get("content-type", "").partition(";")[0] else answer.content


def _path(name: str) -> str:
    return f"/models/{quote(checks.model_name(name), safe='')}"
