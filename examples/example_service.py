"""Runs an example: against the service at `--url`, or against its own on empty data."""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from wager_client import Wager, WagerError

Example = Callable[[Wager, int, int], object]

_START_SECONDS = 120.0


def main(example: Example, rounds: int) -> None:
    """Run an example with the options of the command line.

    Args:
        example: called with a client, the number of rounds, and the seed of the simulated users.
        rounds: the default number.
    """
    options = argparse.ArgumentParser(description=sys.modules[example.__module__].__doc__)
    options.add_argument("--url", help="URL of a running service; WAGER_API_KEY has its key. Default: start one.")
    options.add_argument("--rounds", type=int, default=rounds, help=f"Default: {rounds}.")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    with contextlib.ExitStack() as stack:
        url = given.url or stack.enter_context(_own_service())
        wager = stack.enter_context(Wager(url, timeout=60.0))
        try:
            example(wager, given.rounds, given.seed)
        except WagerError as error:
            sys.exit(f"{sys.argv[0]}: {error}")


@contextlib.contextmanager
def _own_service() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        command = [sys.executable, "-P", "-m", "service", "serve", "--host", "127.0.0.1", "--port", str(port)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WAGER_")}
        process = subprocess.Popen(
            [*command, "--data-dir", f"{folder}/data"], env=clean, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait(process, url)
            print(f"Service    {url}, started for this example\n")
            yield url
        finally:
            process.terminate()
            process.wait()


def _wait(process: "subprocess.Popen[bytes]", url: str) -> None:
    until = time.monotonic() + _START_SECONDS
    with Wager(url, timeout=2.0, max_retries=0) as wager:
        while process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(WagerError):
                wager.health()
                return
            time.sleep(0.1)
    sys.exit("the service did not start; is Wager installed? (`make install`)")
