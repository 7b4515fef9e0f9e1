"""How many wrong API keys each address has sent of late, in one worker.

A right key is let in whatever its address has sent, so nobody is locked out by a neighbour behind the same address.
"""

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable

MOST_WRONG_KEYS = 20
WINDOW_SECONDS = 60.0
_MOST_ADDRESSES = 4096


class WrongKeys:
    """Counts in fixed windows, which open with an address's first wrong key.

    Args:
        now: seconds, on a clock that does not go back.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()  # when each ends, and how many came

    def count(self, address: str) -> int | None:
        """Count a wrong key; return the seconds to wait if it is one too many.

        Args:
            address: of the peer; the 2^64 addresses of an IPv6 network are one.
        """
        source, now = _source(address), self._now()
        ends, seen = self._windows.pop(source, (0.0, 0))
        if ends <= now:
            ends, seen = now + WINDOW_SECONDS, 0
        self._windows[source] = ends, seen + 1
        if len(self._windows) > _MOST_ADDRESSES:
            self._windows.popitem(last=False)
        return max(1, math.ceil(ends - now)) if seen >= MOST_WRONG_KEYS else None


def _source(address: str) -> str:
    try:
        known = ipaddress.ip_address(address)
    except ValueError:  # a socket's path, or nothing
        return address
    if known.version == 4:
        return address
    return str(known.ipv4_mapped or ipaddress.ip_network((int(known) >> 64 << 64, 64)))
