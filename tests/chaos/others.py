"""The clients that use the service beside the crowd."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

import httpx2

from tests.chaos.alterations import Alterations
from tests.chaos.evaluations import Evaluations
from tests.chaos.hoarding import Hoarders
from tests.chaos.hooks import Hooks
from tests.chaos.importing import Importers
from tests.chaos.leaving import Leavers
from tests.chaos.metered import Metered
from tests.chaos.offers import Offers
from tests.chaos.rivals import Rivals
from tests.chaos.silence import Silence
from tests.chaos.spending import Spenders
from tests.chaos.unauthorized import Unauthorized


class Judged(Protocol):
    """Clients of one model that tell at the end what is wrong with it."""

    model: ClassVar[str]
    over: bool

    def __init__(self, url: str, seed: int) -> None: ...

    async def create_model(self) -> None:
        """Create the model that all clients use."""

    async def play(self) -> None:
        """Run all clients until `over` is set."""

    async def violations(self, client: httpx2.AsyncClient) -> list[str]:
        """Return what is wrong, as sentences."""


OTHERS: Sequence[type[Judged]] = (
    Silence,
    Alterations,
    Offers,
    Hooks,
    Metered,
    Unauthorized,
    Rivals,
    Spenders,
    Leavers,
    Importers,
    Evaluations,
    Hoarders,
)
"""Classes of the clients of an ordinary run, each with another model."""

TIMELESS: Sequence[type[Judged]] = (Alterations, Offers, Spenders, Leavers, Importers)
"""Those whose expectations hold if clocks jump. Short windows, limits per second and signatures depend on the time."""
