"""No features: every context is empty, and the learner sees only its intercept, a constant."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from learners.base import Contexts
from service.contexts.kind import BaseFeatures, ContextKind, Entry, FeatureEntry
from service.error_messages.values import shown
from service.errors import ContextLengthError
from service.json_values import JsonObject
from service.store.records.codecs import SparseCodec


class Featureless(BaseFeatures):
    """The model has no features: `context` is absent or `{}`. It learns how good each label is for all requests."""

    kind: Literal["none"]
    size: Literal[0] = 0


class FeaturelessKind(ContextKind[JsonObject]):
    """Empty contexts."""

    name = "none"
    features = Featureless
    given = Annotated[JsonObject, Field(max_length=0)]
    shown = Annotated[JsonObject, Field(max_length=0)]
    type = dict
    has_features = False
    form = "nothing or an empty object without features"
    wanted = "no context, or an empty object"
    example = "{}"

    def __init__(self, _: Featureless) -> None:
        self.codec = SparseCodec(0)

    @property
    def hint(self) -> str:
        return f"the model has no features: send {self.wanted}, such as {self.example}"

    @staticmethod
    def claims(given: object) -> bool:
        return type(given) is dict and not given

    def check(self, context: object) -> JsonObject:
        return super().check({} if context is None else context)

    def checked(self, context: JsonObject) -> JsonObject:
        if context:
            raise ContextLengthError(f"got {shown(context)}; {self.hint}", "context")
        return context

    def numbers(self, _: JsonObject) -> Sequence[float]:
        return []

    def entry(self, _: JsonObject, position: int) -> Entry:
        raise IndexError(f"there is no number {position}")

    def to_batch(self, contexts: Sequence[JsonObject]) -> Contexts:
        return Contexts.sparse([0] * len(contexts), list[int](), list[int]())

    def fingerprinted(self, _: JsonObject) -> bytes:
        return b""

    def show(self, contexts: Contexts, i: int, sent: bytes) -> JsonObject:
        return {}

    def feature_entries(self, _: JsonObject) -> list[FeatureEntry]:
        return []
