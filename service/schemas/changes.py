"""The schema of a request that changes a model."""

from copy import copy
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, FailFast, Field, create_model
from pydantic_core import PydanticUndefined

from service.schemas.labels import MOST_LABELS, Label, unique
from service.schemas.policies import Policies
from service.strict_body import Body

_DifferentLabels = Annotated[list[Label], FailFast(), Field(max_length=MOST_LABELS), AfterValidator(unique)]


class LabelChanges(Body):
    """Labels to add and to retire. Retired labels are never answered again, and their names are never used again."""

    add: _DifferentLabels = Field(default=[])
    """New labels, for a learner whose labels can grow."""
    retire: _DifferentLabels = Field(default=[])
    """Labels of the model. At least 2 others remain."""


class _PatchFields(Body):
    """Changes of a model. Fields that are left out stay as they are."""

    labels: LabelChanges | None = None


def _optional(name: str) -> Any:
    """Return the type and the field of a policy that a request may leave out."""
    field = copy(Policies.model_fields[name])
    field.default, field.default_factory = PydanticUndefined, lambda: None
    return Policies.model_fields[name].annotation, field


if TYPE_CHECKING:
    ModelPatch = _PatchFields
else:
    _policies = {name: _optional(name) for name in Policies.model_fields}
    ModelPatch = create_model("ModelPatch", __base__=_PatchFields, __doc__=_PatchFields.__doc__, **_policies)
