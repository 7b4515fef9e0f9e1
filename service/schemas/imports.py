"""Schemas of imported rounds."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field

from service.actions.definition import ActionId, GivenActions
from service.contexts.kind import without_default
from service.contexts.registry import GivenContext
from service.schemas.labels import MOST_LABELS, unique
from service.schemas.models import _DESCRIBED, Answer
from service.strict_body import Body, FirstError
from service.wording.limits import LEAST_PROPENSITY
from service.wording.patterns import SOURCE

Source = Annotated[str, Field(min_length=1, max_length=200, pattern=SOURCE)]

_Eligible = Annotated[list[ActionId], FirstError(), Field(min_length=1, max_length=MOST_LABELS), AfterValidator(unique)]


class ImportRound(Body):
    """A complete round: a context, an answer with its propensity, and its outcome; or a context and its true label."""

    context: Annotated[GivenContext, Field(json_schema_extra=without_default)] = None
    """As in `POST /predict`."""
    actions: GivenActions | None = None
    """The actions to choose from, for a model with actions."""
    eligible: _Eligible | None = None
    """The labels or actions that could be chosen; by default all that are not retired."""
    label: ActionId | None = None
    """The label, or the id of the action, that was chosen. If it is left out, the model draws one itself, and
    `true_label` says whether it is right."""
    propensity: Annotated[float, Field(ge=LEAST_PROPENSITY, le=1)] | None = None
    """The probability with which the label was chosen; needed with `label`."""
    correct: bool | None = None
    """Whether the label was right."""
    reward: Annotated[float | None, Field(ge=0, le=1)] = None
    """How good the label was, in the place of `correct` and `true_label`."""
    true_label: ActionId | None = None
    """The label or action that was right. It determines `correct`."""
    at: Annotated[AwareDatetime, Field(strict=False)] | None = None
    """When the label was chosen; by default now."""
    holdout: bool = False
    """Whether the round is for evaluation only: the model does not learn from it. Only with `label`."""


class ImportRequest(Body):
    """Consecutive rounds of a source, such as a file."""

    source: Source
    """What distinguishes the source from all others of the model, such as a digest of the file."""
    offset: Annotated[int, Field(ge=0, le=2**53)]
    """The number of rounds of the source before these."""
    rounds: Annotated[list[ImportRound], FirstError(), Field(min_length=1)]
    """All of them are checked before the first is imported."""


@dataclass
class ImportAnswer:
    """The progress of an import."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    source: str
    status: Literal["recorded", "duplicate"]
    """`duplicate` if every round of the request had been imported before."""
    imported: int
    """The number of rounds that this request imported."""
    position: int
    """The number of rounds imported from the source so far: the `offset` of the next request."""
    rounds_seen: int
    """The number of rounds in the log."""


class ImportedSource(Answer):
    """The progress of one source."""

    source: str
    position: int
    """The number of rounds imported from it so far: the `offset` of the next request."""
    at: datetime
    """When the last request named it."""


class ImportList(Answer):
    """The sources of imported rounds, the last used one first; at most 100."""

    imports: list[ImportedSource]
