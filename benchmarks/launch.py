"""Runs one worker as `wager serve` does, and reports standstills: `python -m benchmarks.launch PORT`."""

import sys

import uvicorn

from service.commands.serve import connection_settings
from service.settings import Settings


def main(port: int) -> None:
    """Run a worker on a port of 127.0.0.1 until a signal."""
    uvicorn.run(
        "benchmarks.server:app_under_test",
        factory=True,
        port=port,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=1,
        **connection_settings(Settings()),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
