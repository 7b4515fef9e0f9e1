"""The `actions` of a model's definition, and the actions in a request."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from service.contexts.kind import BaseFeatures
from service.contexts.named import Pair
from service.contexts.registry import ActionFeatures, GivenFeatures, context_kind
from service.error_messages.patterns import MOST_COST
from service.error_messages.values import shown
from service.errors import FeaturesError, InvalidInputError
from service.json_values import JsonMapping
from service.strict_body import Body

MOST_ACTIONS = 10_000  # maximum number of actions in a request
MOST_ID = 256  # maximum length of an action's id, in characters

ActionId = Annotated[str, Field(min_length=1, max_length=MOST_ID)]


class ActionsDefinition(Body):
    """Actions instead of labels: each request brings its own, with features."""

    features: ActionFeatures
    """The features of each action. The model's own `features` are those of the context. `norm`, `norm_bound` and
    `intercept` concern the vector of context and action together."""
    interactions: Annotated[list[Pair], Field(max_length=64)] | None = None
    """Pairs of a namespace of the context and one of the action. The product of each feature of one and each of the
    other is a feature too. By default, every feature of the context is multiplied by every feature of the action; an
    empty list means no products."""
    log_actions: Literal["chosen", "all"] = "chosen"
    """Which actions the log keeps: the chosen one, or all of each request, with their probabilities."""


def _read_named(given: object, read: ValidatorFunctionWrapHandler) -> Any:
    """Validate features, except those of kind `named`, which `FactorReader` checks later."""
    if type(given) is dict and "indices" not in given and "values" not in given:
        return given  # Pydantic would convert each object twice
    return read(given)


GivenActionFeatures = Annotated[GivenFeatures, WrapValidator(_read_named)]


class GivenAction(Body):
    """One of the actions to choose from."""

    source: ClassVar[bytes | None] = None
    """Always None here: only a `SourceAction` keeps the JSON of its features."""

    id: ActionId
    """The name of the action, which the answer gives as `label`."""
    features: GivenActionFeatures
    """Its features, of the kind in the model's `actions.features`."""
    tag: Annotated[str, Field(min_length=1, max_length=MOST_ID)] | None = None
    """The group to which the rules of the model may refer, such as `partner`."""
    cost: Annotated[float, Field(ge=0, le=MOST_COST)] | None = None
    """What it costs to choose it; see `cost_weight` of the model."""


GivenActions = Annotated[
    list[GivenAction], Field(json_schema_extra={"minItems": 1, "maxItems": MOST_ACTIONS, "uniqueItems": True})
]


def check_actions(actions: ActionsDefinition, features: BaseFeatures) -> None:
    """Check the `actions` of a new model, also against its `features`; raise `InvalidInputError` if they do not fit."""
    if actions.features.norm == "reject":
        raise FeaturesError('got "reject"; must be none, scale or unit for actions', "actions.features.norm")
    for name in ("norm", "norm_bound", "intercept"):
        if name in features.model_fields_set and features.kind != "none":
            detail = f"must be left out: actions.features.{name} is for context and action together"
            raise FeaturesError(detail, f"features.{name}")
    for where, side in (("features", features), ("actions.features", actions.features)):
        if (precision := getattr(side, "precision", "float64")) != "float64":
            detail = f"got {shown(precision)}; must be float64, as products of features are stored"
            raise FeaturesError(detail, f"{where}.precision")
    try:
        context_kind(actions.features).check_new()
    except InvalidInputError as error:
        raise type(error)(error.detail, f"actions.{error.field}") from error
    for number, pair in enumerate(actions.interactions or ()):
        field = f"actions.interactions.{number}"
        context_kind(features).check_namespace(pair[0], "features", f"{field}.0")
        context_kind(actions.features).check_namespace(pair[1], "actions.features", f"{field}.1")
        if pair in (actions.interactions or ())[:number]:
            raise FeaturesError(f"got {shown(pair)} twice", field)


def complete(actions: ActionsDefinition, defaults: JsonMapping) -> ActionsDefinition:
    """Return the definition, with defaults for the fields that its `features` lack."""
    missing = {name: value for name, value in defaults.items() if name not in actions.features.model_fields_set}
    return actions.model_copy(update={"features": actions.features.model_copy(update=missing)})


def repeated(ids: Sequence[str]) -> Iterator[int]:
    """Yield the position of each id that repeats an earlier one."""
    seen: set[str] = set()
    for position, each in enumerate(ids):
        if each in seen:
            yield position
        seen.add(each)


_MOST_BYTES = 2**23  # bytes of JSON that fill a cache's recent generation, which then replaces the older one

_READER = TypeAdapter[Any](GivenActionFeatures, config=Body.model_config)  # configured as for a request


class SourceAction:
    """Like a `GivenAction`, but keeps the JSON of its features, which a `SourceReader` has checked."""

    __slots__ = ("_features", "cost", "id", "source", "tag")

    def __init__(self, id_: str, source: bytes, tag: str | None = None, cost: float | None = None) -> None:
        self.id, self.source, self.tag, self.cost = id_, source, tag, cost
        self._features: Any = None

    @property
    def features(self) -> Any:
        """The features, parsed on first use."""
        if self._features is None:
            self._features = _READER.validate_json(self.source)
        return self._features


class SourceReader:
    """Reads actions, and caches the JSON of valid features. Of named features, it checks only the JSON syntax."""

    def __init__(self) -> None:
        self._recent = set[bytes]()
        self._older = set[bytes]()
        self._bytes = 0

    def read(self, actions: Iterable[tuple[str, bytes, str | None, float | None]]) -> list[SourceAction] | None:
        """Return an action for each id, JSON of features, tag, and cost; None if the JSON of one is invalid."""
        found, known = list[SourceAction](), self._recent
        for id_, source, tag, cost in actions:
            if source not in known:
                if not self._is_valid(source):
                    return None
                known = self._recent  # `_is_valid` may have begun a new generation
            found.append(SourceAction(id_, source, tag, cost))
        return found

    def _is_valid(self, source: bytes) -> bool:
        if source not in self._older:
            try:
                _READER.validate_json(source)
            except ValidationError:
                return False
        if self._bytes > _MOST_BYTES:
            self._older, self._recent, self._bytes = self._recent, set(), 0
        self._recent.add(source)
        self._bytes += len(source)
        return True
