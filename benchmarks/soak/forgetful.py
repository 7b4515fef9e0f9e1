"""Runs a worker that forgets predictions a minute after their window: `python -m benchmarks.soak.forgetful PORT`.

The service keeps them for an hour, to tell late feedback from unknown ids. Then the store's memory would grow during
the first hour, and flat memory would show only in a second one. With `next` before the port, it is
also of the next version (`tests.service.operations.next_version`). Nothing else differs from `benchmarks.launch`.
"""

import sys

from service.models import policies
from service.store import scripts
from tests.service.operations import next_version

FORGET_AFTER = 60
_CONSTANT = b"local FORGET_AFTER = 3600"


def forget_sooner() -> None:
    """Replace the constant of the scripts and of the models.

    Raises:
        RuntimeError: if the scripts have no such constant, or if they are loaded already.
    """
    source = scripts._source  # noqa: SLF001  the scripts have no setting for this
    if _CONSTANT not in source("", ("blocks",)) or "service.store.redis.redis_store" in sys.modules:
        raise RuntimeError("the scripts cannot be changed")
    changed = _CONSTANT.replace(b"3600", str(FORGET_AFTER).encode())
    scripts._source = lambda prelude, names: source(prelude, names).replace(_CONSTANT, changed)  # noqa: SLF001
    policies.FORGET_AFTER = float(FORGET_AFTER)


if __name__ == "__main__":
    forget_sooner()
    if "next" in sys.argv:
        next_version.bump()
    from benchmarks.launch import main

    main(int(sys.argv[-1]))
