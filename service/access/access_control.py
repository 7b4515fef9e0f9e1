"""The parts that check the API keys of requests."""

from typing import NamedTuple

from service.access.keys import Gatekeeper
from service.access.wrong_keys import WrongKeys
from service.environment import Environment
from service.store.access.tables import KeyTable, RequestCounter


class AccessControl(NamedTuple):
    """Identifies keys, counts the requests of limited keys, and counts the wrong keys of each address."""

    gatekeeper: Gatekeeper
    request_counter: RequestCounter
    wrong_keys: WrongKeys


def access_control(
    table: KeyTable, counter: RequestCounter, environment: Environment, cache_seconds: float
) -> AccessControl:
    """Build the access control of one worker.

    Args:
        table: records of the keys.
        counter: counter of requests.
        environment: source of the clocks.
        cache_seconds: how long a record is cached.
    """
    return AccessControl(Gatekeeper(table, environment.now, cache_seconds), counter, WrongKeys(environment.monotonic))
