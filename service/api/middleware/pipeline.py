"""What every request passes before a route answers it, in this order.

1. The observer gives the request an id, completes the headers of its response, and counts and logs it at the end.
2. CORS answers a preflight request, and lets pages of listed origins read the response.
3. Admission refuses requests: of pages of other sites without API keys, above the limit in flight, without a sufficient
   key, and with a body that is too large or too slow; in this order.

Middleware that is added to the application surrounds all of them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastapi.middleware import Middleware

from service.access.key_admin import AccessControl
from service.api.middleware.access import Access
from service.api.middleware.admission import Admission
from service.api.middleware.body_limit import BodyLimit, Pace
from service.api.middleware.in_flight import InFlight
from service.api.middleware.observer import Observer
from service.api.middleware.origins import Cors, OwnPages
from service.observability.telemetry import Telemetry


class RequestLimits(NamedTuple):
    """Limits on the size, the pace and the number of requests."""

    batch_items: int
    body_bytes: int
    import_bytes: int
    pace: Pace
    in_flight: int


class RequestPolicy(NamedTuple):
    """What requests must comply with before they are answered."""

    telemetry: Telemetry
    limits: RequestLimits
    access: AccessControl | None  # None if no API keys are required
    origins: Sequence[str] = ()  # whose pages may call the API from a browser
    hosts: Sequence[str] = ()  # names of the service, if no API keys are required


def pipeline(policy: RequestPolicy, now: Callable[[], float]) -> list[Middleware]:
    """Return the middleware of the service, outermost first. `now` is monotonic, in seconds."""
    limits, origins = policy.limits, policy.origins
    return [
        Middleware(Observer, policy.telemetry, now),
        *([Middleware(Cors, origins)] if origins else []),
        Middleware(
            Admission,
            OwnPages(policy.hosts, origins) if policy.access is None else None,
            InFlight(limits.in_flight),
            Access(policy.access),
            BodyLimit(limits.body_bytes, limits.import_bytes, limits.pace),
        ),
    ]
