"""The balancer of docker-compose.yml on this machine: HAProxy with its configuration, in front of local workers."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

_CONFIG = Path(__file__).parents[1] / "docker" / "haproxy.cfg"
_START_WITHIN = 30.0


def installed() -> bool:
    """Check whether HAProxy is installed."""
    return shutil.which("haproxy") is not None


@contextmanager
def balancing(folder: Path, workers: Sequence[int], balance: str, *defaults: str) -> Iterator[int]:
    """Run HAProxy in front of workers; yield its port when it answers.

    Args:
        folder: for its configuration.
        workers: ports of the workers.
        balance: `WAGER_BALANCE`.
        defaults: lines to add to the section of this name.

    Raises:
        RuntimeError: if it does not start.
    """
    port, file = _free_port(), folder / "haproxy.cfg"
    text = _CONFIG.read_text().replace("\ndefaults\n", "\n    ".join(["\ndefaults", *defaults]) + "\n")
    file.write_text(_local_config(port, workers, text))
    environment = os.environ | {"WAGER_BALANCE": balance}
    process = subprocess.Popen(["haproxy", "-q", "-db", "-f", str(file)], env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/readyz", process)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _local_config(port: int, workers: Sequence[int], text: str) -> str:
    """Return a configuration for workers with fixed ports, which HAProxy 2.6 understands as well."""
    servers = "\n    ".join(f"server worker{i} 127.0.0.1:{each}" for i, each in enumerate(workers, 1))
    text = re.sub(r"server-template worker .*", servers, text)
    text = re.sub(r"(?ms)^resolvers names.*?(?=^\S)", "", text)
    text = re.sub(r" (resolvers names|resolve-prefer ipv4|init-addr none|init-state down)", "", text)
    return text.replace("bind :8000", f"bind 127.0.0.1:{port}").replace("bind :8404", f"bind 127.0.0.1:{_free_port()}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_WITHIN
    with httpx2.Client(verify=False, timeout=2.0) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if client.get(url).status_code == httpx2.codes.OK:
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(0.05)
    raise RuntimeError("HAProxy did not start")
