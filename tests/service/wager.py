"""`wager serve` as a separate process, with access to its child processes."""

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
    def __init__(self, process: subprocess.Popen[bytes], port: int, data_dir: Path) -> None:
        self._process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.store_url = EmbeddedServer(data_dir).url

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"wager serve ended with {self._process.returncode}")
        try:
            with httpx2.Client(timeout=2.0, verify=False) as client:  # loading certificates is slow
                return client.get(f"{self.url}/readyz").status_code == 200
        except httpx2.HTTPError:
            return False

    def worker_pids(self) -> list[int]:
        return [pid for pid in self._children() if b"multiprocessing-fork" in command_line(pid)]

    def store_pid(self) -> int:
        return next(pid for pid in self._children() if b"valkey.sock" in command_line(pid))

    def worker_of(self, response: httpx2.Response) -> int | None:
        _, client_port = response.extensions["network_stream"].get_extra_info("client_addr")
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ends = {(row[1].split(":")[1], row[2].split(":")[1]): row[9] for row in rows}
        inode = ends.get((f"{self.port:04X}", f"{client_port:04X}"))
        return next((pid for pid in self.worker_pids() if f"socket:[{inode}]" in open_files(pid)), None)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self, within: float = 250.0) -> int:
        self.signal(signal.SIGTERM)
        return self.wait(within)

    def wait(self, within: float = 250.0) -> int:
        return self._process.wait(within)

    def _children(self) -> list[int]:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return [pid for pid in pids if parent_of(pid) == self._process.pid]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def open_files(pid: int) -> set[str]:
    try:
        return {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@contextmanager
def serve(folder: Path, workers: int = 1, module: str = "service", **environment: str) -> Iterator[Wager]:
    port = free_port()
    options = ["--port", str(port), "--data-dir", str(folder / "data"), "--workers", str(workers)]
    command = tied_command([sys.executable, "-m", module, "serve", *options])
    with (
        (folder / "wager.log").open("ab") as log,
        subprocess.Popen(command, cwd=_ROOT, stdout=log, stderr=log, env=os.environ | environment) as process,
    ):
        wager = Wager(process, port, folder / "data")
        try:
            wait_until(wager.is_ready, 280.0)  # a busy machine takes a minute
            yield wager
            wager.stop()
        finally:
            process.kill()


@asynccontextmanager
async def clients_of_each(
    wager: Wager, workers: int, each: int = 1, patience: float = 250.0
) -> AsyncIterator[list[httpx2.AsyncClient]]:
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
