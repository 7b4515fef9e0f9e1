"""Options of several commands that assign meanings to the columns of a table of rounds."""

import json
from typing import Annotated, Any, TypeAlias

import typer

LabelColumn: TypeAlias = Annotated[
    str | None, typer.Option("--label-column", help="The label; without propensities, the true label.")
]
PropensityColumn: TypeAlias = Annotated[
    str | None, typer.Option("--propensity-column", help="The probability of the label.")
]
RewardColumn: TypeAlias = Annotated[str | None, typer.Option("--reward-column", help="The reward, from 0 to 1.")]
FeatureColumns: TypeAlias = Annotated[
    str | None, typer.Option("--feature-columns", help="The features, separated by commas.")
]
FeaturePrefix: TypeAlias = Annotated[
    str | None, typer.Option("--feature-prefix", help="What the names of the features begin with.")
]
TextColumns: TypeAlias = Annotated[
    str | None, typer.Option("--text-columns", help="Features to read as text even if they look like numbers.")
]


def learner_in(text: str) -> Any:
    """Return the learner of an option: an algorithm, or JSON with its hyperparameters. Raises ValueError."""
    return json.loads(text) if text.lstrip().startswith(("{", "[", '"')) else {"algorithm": text}


def names_in(text: str | None) -> tuple[str, ...]:
    """Return the names in the value of an option, which are separated by commas; () without a value."""
    return tuple(text.split(",")) if text else ()
