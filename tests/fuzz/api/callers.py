"""Who sends a request: keys of several scopes and models, wrong keys, and nobody."""

from random import Random
from typing import NamedTuple

from service.access.key_admin import KeyAdmin
from tests.fuzz.api.control import CONTROL
from tests.service.keyed import bearer

OWN = "own-"
"""How the names of the models of the key `scoped` begin."""


class Caller(NamedTuple):
    """One sender of requests.

    Attributes:
        name: for the counts.
        headers: its key.
        share: its relative part of all requests.
    """

    name: str
    headers: dict[str, str]
    share: int


class Callers(NamedTuple):
    """All senders, and the key for the control model."""

    senders: list[Caller]
    owner: dict[str, str]

    def choose(self, random: Random) -> Caller:
        """Return the sender of the next request."""
        return random.choices(self.senders, [each.share for each in self.senders])[0]


ANYBODY = Callers([Caller("anybody", {}, 1)], {})
"""The sender of all requests to a service without keys."""


async def with_keys(admin: KeyAdmin) -> Callers:
    """Create the keys; the one of the owner is for the control model only."""
    everything = bearer(await admin.create("everything", ["admin"]))
    scoped = bearer(await admin.create("scoped", ["admin"], f"{OWN}*"))
    reader = bearer(await admin.create("reader", ["read"], f"{OWN}*"))
    owner = bearer(await admin.create("owner", ["admin"], CONTROL))
    wrong = bearer(f"wk_{'0' * 12}_{'0' * 64}")
    senders = [
        Caller("admin", everything, 11),
        Caller("scoped", scoped, 5),
        Caller("reader", reader, 2),
        Caller("wrong", wrong, 1),
        Caller("none", {}, 1),
    ]
    return Callers(senders, owner)
