"""Syntax of API keys, checked where no keys are required."""

from service.access.keys import is_well_formed
from service.api.middleware.access import Need, presented_key
from service.api.middleware.exchange import Exchange
from service.errors import UnauthenticatedError


class KeySyntax:
    """Refuses malformed credentials in a service without API keys, as a service with keys does.

    A client that sends them is misconfigured: its requests would fail wherever keys are required. A well-formed key is
    accepted without reading the store. Requests without a key are accepted.
    """

    async def admit(self, exchange: Exchange, _need: Need) -> None:
        """Check the key of a request, if it has one.

        Raises:
            UnauthenticatedError: if it is malformed.
        """
        key = presented_key(exchange)
        if key is not None and not is_well_formed(key):
            raise UnauthenticatedError("not an API key; a key reads wk_<12 hex digits>_<64 hex digits>")
