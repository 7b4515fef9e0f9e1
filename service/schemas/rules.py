"""Schemas of rules: bounds on the probabilities with which a model answers."""

from typing import Annotated

from pydantic import Field

from service.strict_body import Body

_MOST_RULES = 100  # maximum floors, caps or groups of a model

RuleName = Annotated[str, Field(min_length=1, max_length=256)]
_Share = Annotated[float, Field(gt=0, lt=1)]
_Shares = Annotated[dict[RuleName, _Share], Field(max_length=_MOST_RULES)]
_Members = Annotated[list[RuleName], Field(min_length=1)]
_Groups = Annotated[dict[RuleName, _Members], Field(max_length=_MOST_RULES)]


class Rules(Body):
    """Bounds on the probabilities of the learner's answers. They bind neither the holdout nor the mode `logging`."""

    floor: _Shares = Field(default={}, examples=[{"control": 0.05}])
    """The least probability of a label or of a group together, by name."""
    cap: _Shares = Field(default={}, examples=[{"partner": 0.3}])
    """The largest probability of a label or of a group together, by name."""
    floor_each: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The least probability of every eligible label or action."""
    groups: _Groups = Field(default={}, examples=[{"own": ["a", "b"]}])
    """Groups of labels, by name. A label belongs to at most one. A model with actions names no groups here: the group
    of an action is its `tag`."""
