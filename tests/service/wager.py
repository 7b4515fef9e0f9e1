"""`wager serve` in a process of its own, and a look at the processes under it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import httpx2

from service.processes import tied_command
from service.store.embedded.server import EmbeddedServer
from tests.servers import free_port, wait_until

_ROOT = Path(__file__).parents[2]


class Wager:
    """A running `wager serve`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, data_dir: Path) -> None:
        self._process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.store_url = EmbeddedServer(data_dir).url

    @property
    def pid(self) -> int:
        """Of `wager serve` itself, the worker where there is one."""
        return self._process.pid

    def is_ready(self) -> bool:
        """Whether it answers requests."""
        if self._process.poll() is not None:
            raise RuntimeError(f"wager serve ended with {self._process.returncode}")
        try:
            with httpx2.Client(timeout=2.0, verify=False) as client:  # to load certificates takes longer than to ask
                return client.get(f"{self.url}/readyz").status_code == 200
        except httpx2.HTTPError:
            return False

    def worker_pids(self) -> list[int]:
        """The worker processes, where there are several."""
        return [pid for pid in self._children() if b"multiprocessing-fork" in command_line(pid)]

    def store_pid(self) -> int:
        """The embedded store's process."""
        return next(pid for pid in self._children() if b"valkey.sock" in command_line(pid))

    def worker_of(self, response: httpx2.Response) -> int | None:
        """The worker that holds the connection of this response; None where it has gone."""
        _, client_port = response.extensions["network_stream"].get_extra_info("client_addr")
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ends = {(row[1].split(":")[1], row[2].split(":")[1]): row[9] for row in rows}
        inode = ends.get((f"{self.port:04X}", f"{client_port:04X}"))
        return next((pid for pid in self.worker_pids() if f"socket:[{inode}]" in open_files(pid)), None)

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        self._process.send_signal(number)

    def stop(self, within: float = 30.0) -> int:
        """Stops it as an operator does; its exit code."""
        self.signal(signal.SIGTERM)
        return self._process.wait(within)

    def _children(self) -> list[int]:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return [pid for pid in pids if parent_of(pid) == self._process.pid]


def command_line(pid: int) -> bytes:
    """What a process was started with; nothing if it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def open_files(pid: int) -> set[str]:
    """What the file descriptors of a process stand for; nothing if it has gone."""
    try:
        return {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()


def parent_of(pid: int) -> int | None:
    """The parent of a process; None if it has gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@contextmanager
def serve(folder: Path, workers: int = 1, module: str = "service", **environment: str) -> Iterator[Wager]:
    """Starts `wager serve` with its data in `folder`/data, waits until it is ready, and stops it.

    Killed with the test process, however that ends.

    Args:
        folder: for its data and its log.
        workers: how many processes serve.
        module: the program.
        environment: variables beside those of this process.
    """
    port = free_port()
    options = ["--port", str(port), "--data-dir", str(folder / "data"), "--workers", str(workers)]
    command = tied_command([sys.executable, "-m", module, "serve", *options])
    with (
        (folder / "wager.log").open("ab") as log,
        subprocess.Popen(command, cwd=_ROOT, stdout=log, stderr=log, env=os.environ | environment) as process,
    ):
        wager = Wager(process, port, folder / "data")
        try:
            wait_until(wager.is_ready)
            yield wager
            wager.stop()
        finally:
            process.kill()


@asynccontextmanager
async def clients_of_each(
    wager: Wager, workers: int, each: int = 1, patience: float = 60.0
) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """So many clients of each worker, with a connection each; the kernel alone may give all to one worker."""
    found: defaultdict[int | None, list[httpx2.AsyncClient]] = defaultdict(list)
    one = httpx2.Limits(max_connections=1)
    async with AsyncExitStack() as stack, asyncio.timeout(patience) as deadline:
        while sum(map(len, found.values())) < workers * each:
            client = httpx2.AsyncClient(base_url=wager.url, limits=one, timeout=30.0, verify=False)
            stack.push_async_callback(client.aclose)
            pid = wager.worker_of(await client.get("/livez"))
            if pid is None or len(found[pid]) == each:
                await client.aclose()
            else:
                found[pid].append(client)
        deadline.reschedule(None)
        yield [client for clients in found.values() for client in clients]
