"""The command `wager serve`."""

import contextlib
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer
from uvicorn.supervisors.multiprocess import Multiprocess

from learners import kernel_cache
from service.commands.options import EXIT_ADDRESS, EXIT_APPLICATION, EXIT_STORE, fail, read_settings
from service.json_values import JsonObject
from service.processes import tied_command

_log = logging.getLogger(__name__)


class _Exit(threading.Event):
    """An event that also counts as set while SIGINT or SIGTERM is queued.

    While uvicorn replaces the workers one by one, it only queues signals, but it stops once this event is set.
    """

    def __init__(self, signals: list[int]) -> None:
        super().__init__()
        self._signals = signals

    def is_set(self) -> bool:
        return super().is_set() or not {signal.SIGINT, signal.SIGTERM}.isdisjoint(self._signals)


class Supervisor(Multiprocess):
    """Replaces dead workers at once.

    Uvicorn's supervisor keeps the worker's end of the health-check pipe open. If a worker died during its check, the
    supervisor would therefore wait for the timeout of a hung worker, without replacing any worker.
    """

    def __init__(self, config: "uvicorn.Config", sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.should_exit = _Exit(self.signal_queue)

    def init_processes(self) -> None:
        """Start the workers."""
        super().init_processes()
        self._close_ends_of_workers()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died or hang."""
        try:
            super().keep_subprocess_alive()
        except OSError as error:  # such as too many processes, or no working directory; the next pass tries again
            _log.error("cannot start a worker: %s", error)
        self._close_ends_of_workers()

    def _close_ends_of_workers(self) -> None:
        """Close the workers' ends of the pipes, so that the pipe of a dead worker reports end-of-file."""
        for process in self.processes:
            process.child_conn.close()


if TYPE_CHECKING:
    import uvicorn

    from service.settings import Settings


def serve(**options: str | None) -> None:
    """Run the service: the API and, unless --store-url names a store, an embedded one.

    Each option overrides its environment variable: --data-dir overrides WAGER_DATA_DIR.

    Sizes are in bytes and may have a unit, such as 64MiB.

    WAGER_WEBHOOK_SECRETS has no option: a list of processes would show it.
    """
    settings = read_settings(**options)
    settings = settings.model_copy(update={"host": settings.host})  # now counts as set: see `keys_required`
    _limit_threads()
    signal.signal(signal.SIGTERM, partial(_exit, 0))
    with _listen(settings) as listener, _compiler(), _store(settings) as ready:
        _export(ready)
        _announce(settings, ready)
        started = _run_http(ready, listener)
        # SIGTERM now interrupts the stop of the embedded store, which may then lose unwritten data.
        signal.signal(signal.SIGTERM, partial(_exit, EXIT_STORE))
    raise typer.Exit(0 if started else EXIT_APPLICATION)


def _limit_threads() -> None:
    """Limit linear algebra to one thread in each worker, because matrices are small."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def _exit(code: int, _number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(code)


def _listen(settings: "Settings") -> socket.socket:
    """Bind the address before anything else starts, and return the socket. End the command if that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        fail(f"cannot listen on {settings.host}: {error.strerror}", EXIT_ADDRESS)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        fail(f"cannot listen on {settings.host} port {settings.port}: {error.strerror}", EXIT_ADDRESS)
    listener.set_inheritable(True)
    return listener


@contextlib.contextmanager
def _compiler() -> Iterator[None]:
    """Compile the learners' kernels in another process, unless the cache has all of them or a process is at it."""
    if kernel_cache.is_compiled(kernel_cache.ALL) or (lock := kernel_cache.lock()) is None:
        if kernel_cache.ROOT is None:
            typer.echo("No folder can store compiled learners, so every worker compiles them. Set NUMBA_CACHE_DIR.")
        yield
        return
    typer.echo("Compiling the learners for this machine, once. The first prediction waits for its learner.")
    command = tied_command([sys.executable, "-P", "-m", "learners", "--beside-service"])
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)  # noqa: PTH100 - "" is the working directory
    environment = os.environ | {"PYTHONPATH": paths}
    # In another process group, because a Ctrl-C in the terminal must not reach it.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, env=environment, cwd="/", pass_fds=[lock], process_group=0
    )
    os.close(lock)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _store(settings: "Settings") -> Iterator["Settings"]:
    if settings.store_url is not None:
        yield settings
        return
    from service.store.embedded.server import EmbeddedServer, EmbeddedServerError

    embedded = EmbeddedServer(
        settings.data_dir,
        settings.appendfsync,
        reserve=settings.disk_reserve_bytes,
        memory=settings.memory_limit_bytes,
        write_seconds=settings.graceful_shutdown_seconds,
    )
    try:
        with embedded as server:
            yield settings.model_copy(update={"store_url": server.url})
    except EmbeddedServerError as error:  # it cannot start, or may have lost data when it stopped
        fail(str(error), EXIT_STORE)


def _export(settings: "Settings") -> None:
    """Set the environment variables from which workers read these settings. Delete all others that name settings."""
    ours = {f"wager_{name}" for name in type(settings).model_fields}
    for name in [name for name in os.environ if name.lower() in ours]:
        del os.environ[name]
    os.environ.update(settings.as_environment())


def _announce(asked: "Settings", ready: "Settings") -> None:
    host = f"[{asked.host}]" if ":" in asked.host else asked.host
    base = f"http://{host}:{asked.port}"
    where = asked.masked_store_url or f"{asked.data_dir.absolute()} ({ready.store_url})"
    typer.echo(f"API        {base}\nAPI docs   {base}/docs\nData       {where}")
    if asked.keys_required:
        typer.echo("API keys   required; create one with `wager keys create NAME --scope admin`")
    elif not asked.on_loopback:
        warning = f"WAGER_AUTH=off: everyone who can reach {base} may read, teach and delete models"
        typer.echo(f"wager: WARNING: {warning}", err=True)


def _run_http(settings: "Settings", listener: socket.socket) -> bool:
    import uvicorn

    from service.observability import log_format

    config = uvicorn.Config(
        "service.app:create_app",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        timeout_worker_healthcheck=30,  # a worker that compiles on a busy machine is slow, not hung
        timeout_graceful_shutdown=settings.graceful_shutdown_seconds,
        access_log=False,
        log_config=log_format.configuration(settings.log_format),
        **connection_settings(settings),
    )
    if settings.workers > 1:
        supervisor = Supervisor(config, sockets=[listener])
        with _shared_metrics():
            supervisor.run()
        return all(process.exitcode != EXIT_APPLICATION for process in supervisor.processes)
    server = uvicorn.Server(config)
    gc.disable()  # collections take a seventh of the time of the application's imports; it enables them
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        server.run(sockets=[listener])
    return server.started


def connection_settings(settings: "Settings") -> JsonObject:
    """Return uvicorn's connection settings."""
    from service.commands.connections import Deadlines, LimitedProtocol

    deadlines = Deadlines(settings.head_timeout_seconds, settings.body_min_bytes_per_second)
    return {
        "http": partial(LimitedProtocol, deadlines=deadlines),
        "ws": "none",  # upgrades to WebSocket are ignored
        "timeout_keep_alive": 75,  # must exceed the load balancer's timeout, so that the balancer closes first
        "server_header": False,
    }


@contextlib.contextmanager
def _shared_metrics() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="wager-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield
