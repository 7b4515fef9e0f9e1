"""All kinds of contexts, and their schemas in requests and responses. A new kind is one more name in `KINDS`."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Discriminator, Field, Tag

from service.contexts.dense import DenseKind
from service.contexts.featureless import FeaturelessKind
from service.contexts.kind import BaseFeatures, ContextKind
from service.contexts.named import NamedKind
from service.contexts.sparse import SparseKind

KINDS: tuple[type[ContextKind[Any]], ...] = (DenseKind, SparseKind, FeaturelessKind, NamedKind)
"""The kinds, in the order of their claims. An unclaimed value is read as the first kind."""

_CLAIMS = [(kind.claims, kind.name) for kind in KINDS[1:]]
_KIND_OF_NAME = {kind.name: kind for kind in KINDS}
NAMES = frozenset(_KIND_OF_NAME)


def no_features() -> BaseFeatures:
    """Return the features of a model that has none."""
    return FeaturelessKind.features.model_validate({"kind": FeaturelessKind.name})


def context_kind(features: BaseFeatures) -> ContextKind[Any]:
    """Return the kind of a model's features."""
    return _KIND_OF_NAME[features.kind](features)


def _name_of(given: object) -> str:
    for claims, name in _CLAIMS:
        if claims(given):
            return name
    return KINDS[0].name


def _forms() -> str:
    """Return a sentence about what clients send for each kind."""
    *others, last = (kind.form for kind in KINDS)
    forms = f"{', '.join(others)}, or {last}."
    return forms[0].upper() + forms[1:]


def _union(types: Iterable[Any]) -> Any:
    return reduce(or_, types)


if TYPE_CHECKING:
    Features: TypeAlias = BaseFeatures
    GivenContext: TypeAlias = Any
    ShownContext: TypeAlias = Any
else:
    Features = Annotated[_union(kind.features for kind in KINDS), Field(discriminator="kind")]
    GivenContext = Annotated[
        _union(Annotated[kind.given, Tag(kind.name)] for kind in KINDS),
        Discriminator(_name_of),
        Field(description=_forms()),
    ]
    ShownContext = _union(kind.shown for kind in KINDS)
