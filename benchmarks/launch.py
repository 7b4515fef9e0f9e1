"""Runs one worker as `wager serve` does, or a baseline: `python -m benchmarks.launch APPLICATION PORT`."""

import sys

import uvicorn

from service.commands.serve import connection_settings
from service.settings import Settings


def main(application: str, port: int) -> None:
    """Run an application until a signal.

    Args:
        application: module and factory, such as `benchmarks.server:app_under_test`.
        port: on 127.0.0.1.
    """
    served = connection_settings(Settings()) if application.startswith("benchmarks.server:") else {}
    uvicorn.run(
        application,
        factory=True,
        port=port,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=1,
        **served,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
