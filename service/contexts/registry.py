"""All kinds of contexts, and their schemas in requests and responses. List new kinds in `KINDS`."""

import contextlib
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from pydantic import Discriminator, Field, Tag, TypeAdapter, ValidationError

from service.contexts.dense import DenseKind
from service.contexts.featureless import FeaturelessKind
from service.contexts.kind import BaseFeatures, ContextKind
from service.contexts.named import NamedKind
from service.contexts.sparse import SparseKind
from service.strict_body import Body

KINDS: tuple[type[ContextKind[Any]], ...] = (DenseKind, SparseKind, FeaturelessKind, NamedKind)
"""The kinds. Of those that claim a context, the first in this order gets it."""

_WITH_FEATURES = tuple(kind for kind in KINDS if kind.has_features)
_CLAIMS = [(kind.claims, kind.name) for kind in KINDS]
_KIND_OF_NAME = {kind.name: kind for kind in KINDS}
NAMES = frozenset(_KIND_OF_NAME)

PLAIN = tuple(kind for kind in KINDS if kind.plain is not None)  # the kinds whose contexts msgspec reads


def no_features() -> BaseFeatures:
    """Return the features of a model that has none."""
    return FeaturelessKind.features.model_validate({"kind": FeaturelessKind.name})


def context_kind(features: BaseFeatures) -> ContextKind[Any]:
    """Return the kind of a model's features."""
    return _KIND_OF_NAME[features.kind](features)


def _name_of(given: object) -> str | None:
    for claims, name in _CLAIMS:
        if claims(given):
            return name
    return None


def _given(kinds: Sequence[type[ContextKind[Any]]]) -> Any:
    *others, last = (kind.form for kind in kinds)
    forms = f"{', '.join(others)}, or {last}"
    return Annotated[
        reduce(or_, [Annotated[kind.given, Tag(kind.name)] for kind in kinds]),
        Discriminator(_name_of, custom_error_type="context_type", custom_error_message=f"must be {forms}"),
        Field(description=f"{forms[0].upper()}{forms[1:]}."),
    ]


if TYPE_CHECKING:
    Features: TypeAlias = BaseFeatures
    ActionFeatures: TypeAlias = BaseFeatures
    GivenContext: TypeAlias = Any
    GivenFeatures: TypeAlias = Any
    ShownContext: TypeAlias = Any
    PlainContexts: TypeAlias = list[Any]
else:
    Features, ActionFeatures = (
        Annotated[reduce(or_, [kind.features for kind in kinds]), Field(discriminator="kind")]
        for kinds in (KINDS, _WITH_FEATURES)
    )
    GivenContext, GivenFeatures = map(_given, (KINDS, _WITH_FEATURES))
    ShownContext = reduce(or_, [kind.shown for kind in KINDS])
    PlainContexts = Annotated[list[DenseKind.plain], msgspec.Meta(min_length=1)]


_READER = TypeAdapter(list[GivenContext], config=Body.model_config)  # configured as request bodies are


def read_contexts(contexts: list[Any]) -> list[Any] | None:
    """Parse JSON values as contexts; return None if one is invalid.

    msgspec parses dense contexts in a quarter of pydantic's time, with the same result.
    """
    with contextlib.suppress(msgspec.ValidationError):
        plain: list[Any] = msgspec.convert(contexts, PlainContexts)
        return plain
    try:
        return _READER.validate_python(contexts)
    except ValidationError:
        return None
