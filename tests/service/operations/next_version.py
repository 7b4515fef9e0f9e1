"""`wager` as a later version: the program of today, but each version that it writes is one more than today's.

It is run as `python -m tests.service.operations.next_version serve …`, beside today's `wager` on the same store.
"""

import importlib

VERSIONS = [
    ("service.store.records.layout", "VERSION"),
    ("service.store.redis.snapshot_parts", "SNAPSHOT_VERSION"),
    ("service.replicas.statistics", "STATISTICS_VERSION"),
]
"""Modules and constants, in an order in which none of them imports what takes a constant from a later one."""


def bump() -> None:
    """Raise every version, before the service is imported."""
    for module, constant in VERSIONS:
        versions = importlib.import_module(module)
        setattr(versions, constant, getattr(versions, constant) + 1)


if __name__ == "__main__":
    bump()
    from service.commands.main import main

    main()
