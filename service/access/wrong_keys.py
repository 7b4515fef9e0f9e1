"""Counts of wrong API keys per address, in one worker.

A valid key is always accepted, so clients that share an address cannot lock each other out.
"""

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable

MOST_WRONG_KEYS = 20
WINDOW_SECONDS = 60.0
_MOST_ADDRESSES = 4096


class WrongKeys:
    """Counts in fixed windows. The first wrong key of an address opens a window.

    Args:
        now: returns seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()  # end of each window, and its wrong keys

    def count(self, address: str) -> int | None:
        """Count a wrong key; return the seconds to wait if there are too many, else None.

        Args:
            address: address of the peer. All addresses of an IPv6 /64 network count as one.
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
    except ValueError:  # the path of a socket, or empty
        return address
    if known.version == 4:
        return address
    return str(known.ipv4_mapped or ipaddress.ip_network((int(known) >> 64 << 64, 64)))
