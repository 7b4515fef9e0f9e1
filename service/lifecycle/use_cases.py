"""All use cases of the lifecycle of models."""

from typing import NamedTuple

from service.lifecycle.copying import Copying
from service.lifecycle.promoting import Promoting
from service.lifecycle.replacing import Replacing
from service.lifecycle.snapshots import Snapshots


class Lifecycle(NamedTuple):
    """The use cases that manage states of models."""

    snapshots: Snapshots
    replacing: Replacing
    copying: Copying
    promoting: Promoting
