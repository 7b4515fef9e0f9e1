"""`wager` as a later version: the current code with each version number that it writes raised by one.

Run it as `python -m tests.service.operations.next_version serve …` alongside the current `wager` on the same store.
"""

import importlib

VERSIONS = [
    ("service.store.records.layout", "VERSION"),
    ("service.store.redis.entry_codec", "CHANGE_VERSION"),
    ("service.store.redis.snapshot_parts", "SNAPSHOT_VERSION"),
    ("service.replicas.statistics", "STATISTICS_VERSION"),
]
"""Modules and constants, ordered so that no module imports a constant that a later entry changes."""


def bump() -> None:
    for module, constant in VERSIONS:
        versions = importlib.import_module(module)
        setattr(versions, constant, getattr(versions, constant) + 1)


if __name__ in {"__main__", "__mp_main__"}:  # the second is its name in the workers that it starts
    bump()

if __name__ == "__main__":
    from service.__main__ import main

    main()
