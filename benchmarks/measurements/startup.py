"""Seconds from the command to the first answer, with kernels compiled beforehand."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from benchmarks.report import Row, at_most, print_rows
from service.store.embedded.server import EmbeddedServer

WANTED = 2.0  # seconds
REPEATS = 5


def seconds_to_answer(*options: str) -> float:
    """Start `wager serve`, wait for the answer of `/readyz`, and stop the process. Return the seconds to the answer."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    started = time.perf_counter()
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None and time.perf_counter() < started + 60:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30).close()
                    return time.perf_counter() - started
                time.sleep(0.005)
            raise RuntimeError("the service did not start")
        finally:
            process.terminate()


def import_seconds() -> float:
    """Return the seconds in which a new Python process imports the application."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import service.app, uvicorn, uvloop"], check=True, env=dict(os.environ))
    return time.perf_counter() - started


def rows() -> list[Row]:
    """Return the table of starts."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as store:
        runs = [(_embedded(), seconds_to_answer("--store-url", store.url), import_seconds()) for _ in range(REPEATS)]
    embedded, given, imports = np.median(runs, axis=0).tolist()
    return [
        at_most("wager serve, embedded store, to the first answer", embedded, WANTED, "s", 1.0)._replace(travels=False),
        at_most("wager serve, external store, to the first answer", given, WANTED, "s", 1.0)._replace(travels=False),
        at_most("... vs. its imports alone", given, imports, "s", 2.0),
    ]


def _embedded() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return seconds_to_answer("--data-dir", folder)


if __name__ == "__main__":
    print_rows("Start", rows())
