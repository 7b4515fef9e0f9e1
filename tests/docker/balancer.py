"""The balancer of docker-compose.yml on this machine: HAProxy with its configuration, in front of local workers."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.servers import free_port, wait_until

_CONFIG = Path(__file__).parents[2] / "docker" / "haproxy.cfg"


def local_config(port: int, workers: Sequence[int], text: str) -> str:
    """Return a configuration for workers with fixed ports, that HAProxy 2.6 understands."""
    servers = "\n    ".join(f"server worker{i} 127.0.0.1:{each}" for i, each in enumerate(workers, 1))
    text = re.sub(r"server-template worker .*", servers, text)
    text = re.sub(r"(?ms)^resolvers names.*?(?=^\S)", "", text)
    text = re.sub(r" (resolvers names|resolve-prefer ipv4|init-addr none|init-state down)", "", text)
    operations = free_port()
    return text.replace("bind :8000", f"bind 127.0.0.1:{port}").replace("bind :8404", f"bind 127.0.0.1:{operations}")


@contextmanager
def balancing(haproxy: str, folder: Path, workers: Sequence[int], balance: str) -> Iterator[httpx2.Client]:
    """Run HAProxy in front of workers with these ports; yield its client when it has found them.

    Args:
        haproxy: path of the program.
        folder: for its configuration.
        workers: ports of the workers.
        balance: `WAGER_BALANCE`.
    """
    port, file = free_port(), folder / "haproxy.cfg"
    file.write_text(local_config(port, workers, _CONFIG.read_text()))
    environment = os.environ | {"WAGER_BALANCE": balance}
    process = subprocess.Popen([haproxy, "-q", "-db", "-f", str(file)], env=environment, stdout=subprocess.DEVNULL)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", verify=False, timeout=20.0) as client:
            wait_until(lambda: _answers(client), 30.0)
            yield client
    finally:
        process.terminate()
        process.wait(20)


def _answers(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.HTTPError:
        return False
