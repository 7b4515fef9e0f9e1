"""`wager demo`: a site with three headlines whose favourite changes, live on the dashboard."""

import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import httpx2
import typer
from rich.console import Console

from service.processes import tied_command
from toolkit import ToolError
from toolkit.remote import RemoteError, call, connect
from toolkit.visitors import CHANGE_SECONDS, DEFINITION, FAVOURITE_RATE, NAME, OTHER_RATE, Group, Site, is_own

DEFAULT_URL = "http://127.0.0.1:8000"

_STEP_SECONDS = 0.1  # between two groups of visitors
_PATIENCE_SECONDS = 1.0  # after which visitors whom the service has not served leave
_RETRY_SECONDS = 1.0
_ROW_SECONDS = 5.0
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


class DemoError(ToolError):
    """The demonstration failed."""


def demo(
    url: Annotated[
        str | None, typer.Option(help="URL of the service. Unset: use one on port 8000, or start one.")
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, max=20_000, help="Visitors a second.")] = 40.0,
    seconds: Annotated[float | None, typer.Option(min=1, help="Duration. Unset: until Ctrl-C.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what the visitors do.")] = 1,
    api_key: Annotated[
        str | None, typer.Option(envvar="WAGER_API_KEY", help="Key with the scope admin, if the service needs one.")
    ] = None,
) -> None:
    """Watch a model follow the favourite headline of a simulated site, from clicks alone."""
    run(url, rate, seconds, seed, api_key)


def run(url: str | None, rate: float, seconds: float | None, seed: int, api_key: str | None = None) -> None:
    """Run the site until `seconds` have passed, or Ctrl-C. A service that already ran keeps the model."""
    console = Console(highlight=False, soft_wrap=True)
    with _service(url, console) as (base, stays), connect(base, api_key) as client:
        page = f"{base}/#/models/{NAME}"
        _explain(console, rate, page, goes_on=not open_model(client))
        site = Site(client, random.Random(seed), time.monotonic)
        with contextlib.suppress(KeyboardInterrupt):
            play(site, rate, seconds, console.print, time.monotonic, time.sleep)
        console.print(_summary(site))
        if stays:
            key = "" if api_key is None else ' -H "X-API-Key: $WAGER_API_KEY"'
            console.print(f"The model stays at {page}\nDelete it with: curl -X DELETE{key} {base}/models/{NAME}")


def open_model(client: httpx2.Client) -> bool:
    """Create the model, and return True; or return False if an earlier run has created it.

    Raises:
        DemoError: if the service has another model with this name.
        RemoteError: if the service fails or refuses.
    """
    try:
        call(client, "POST", "/models", json=DEFINITION)
    except RemoteError as error:
        if error.type != "model-exists":
            raise
        found = call(client, "GET", f"/models/{NAME}").json()
        if not is_own(found):
            raise DemoError(
                f"the service has a model {NAME} that is not from this command; it stays as it is"
            ) from None
        return False
    return True


def play(
    site: Site,
    rate: float,
    seconds: float | None,
    say: Callable[[str], object],
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> None:
    """Let visitors come, and `say` what happens; wait for a service that is away.

    Args:
        site: serves the visitors.
        rate: visitors a second.
        seconds: the duration; None for no end.
        say: prints a line.
        clock: returns seconds.
        sleep: waits for some seconds.

    Raises:
        RemoteError: if the service refuses a request for good.
    """
    report, outage, waiting, before = _Report(site, say), _Outage(say, clock), 0.0, clock()
    while seconds is None or site.seconds < seconds:
        sleep(_STEP_SECONDS)
        waiting += rate * min(clock() - before, _PATIENCE_SECONDS)
        before = clock()
        visitors, waiting = int(waiting), waiting % 1.0
        try:
            site.welcome(visitors)
            site.report_clicks()
        except RemoteError as error:
            outage.note(error)
            sleep(_RETRY_SECONDS)
        else:
            outage.end()
            report.update()


class _Outage:
    """Says once that the service is away, and that it is back."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._say, self._clock = say, clock
        self._since: float | None = None

    def note(self, error: RemoteError) -> None:
        """Begin the outage, or continue it. Raises the error if it will not pass by itself."""
        if error.status is not None and error.status != 429 and error.status < 500:
            raise error
        if self._since is None:
            self._since = self._clock()
            self._say(f"The service does not answer, so the visitors wait. ({error})")

    def end(self) -> None:
        """End the outage, if there is one."""
        if self._since is not None:
            self._say(f"The service answers again, after {self._clock() - self._since:.0f} s.")
            self._since = None


class _Report:
    """Prints a row every few seconds, and each change of the favourite."""

    def __init__(self, site: Site, say: Callable[[str], object]) -> None:
        self._site, self._say = site, say
        self._favourite, self._rows, self._before = site.favourite, 0, Group()
        say(f"         favourite   its share   clicks: model   uniform\n{_clock_face(0.0)}   {site.favourite}")

    def update(self) -> None:
        """Print what is new."""
        rows = int(self._site.seconds / _ROW_SECONDS)
        if rows > self._rows:
            self._say(self._row())
            self._rows, self._before = rows, replace(self._site.chosen)
        if self._site.favourite != self._favourite:
            self._favourite = self._site.favourite
            self._say(f"{_clock_face(self._site.seconds)}   {self._favourite:9}   is the favourite now")

    def _row(self) -> str:
        chosen, before = self._site.chosen, self._before
        recent = Group(chosen.visitors - before.visitors, chosen.favourites - before.favourites)
        rates = f"{chosen.click_rate:13.0%}   {self._site.holdout.click_rate:7.0%}"
        return f"{_clock_face(self._site.seconds)}   {self._favourite:9}   {recent.favourite_share:9.0%}   {rates}"


def _clock_face(seconds: float) -> str:
    return f"{int(seconds) // 60:3}:{int(seconds) % 60:02}"


def _explain(console: Console, rate: float, page: str, goes_on: bool) -> None:
    console.print(
        f"\nA site shows one of three headlines to each of its {rate:g} visitors a second. They click their favourite\n"
        f"{FAVOURITE_RATE:.0%} of the time, the others {OTHER_RATE:.0%}, and have another favourite every "
        f"{CHANGE_SECONDS:g} s. The model hears of clicks only.\n"
        f"{'The model of an earlier run goes on. ' if goes_on else ''}Watch it: {page}\nEnd with Ctrl-C.\n"
    )


def _summary(site: Site) -> str:
    chosen, drawn = site.chosen, site.holdout
    return (
        f"\n{chosen.visitors + drawn.visitors:,} visitors in {site.seconds:.0f} s; the favourite changed "
        f"{site.changes} times. Of those for whom\nthe model chose, {chosen.click_rate:.1%} clicked; of those with a "
        f"uniform choice, {drawn.click_rate:.1%}."
    )


@contextlib.contextmanager
def _service(url: str | None, console: Console) -> Iterator[tuple[str, bool]]:
    """Yield the URL of a ready service, which is started if necessary, and whether it keeps running afterwards."""
    base = (url or DEFAULT_URL).rstrip("/")
    if _answers(base, "livez", "alive"):
        if not _becomes_ready(base):  # its first start compiles
            raise DemoError(f"the service at {base} did not become ready")
        yield base, True
    elif url is not None:
        raise DemoError(f"no service answers at {url}")
    else:
        with tempfile.TemporaryDirectory(prefix="wager-demo-") as folder:
            yield from _own_service(Path(folder), console)


def _own_service(folder: Path, console: Console) -> Iterator[tuple[str, bool]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    base, log = f"http://127.0.0.1:{port}", folder / "service.log"
    console.print(f"Started a service for this demonstration: {base}")
    options = ["--host", "127.0.0.1", "--port", port, "--data-dir", str(folder / "data")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            tied_command([sys.executable, "-m", "service", "serve", *options]),
            env={k: v for k, v in os.environ.items() if not k.startswith("WAGER_")},  # default settings only
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        if not _becomes_ready(base, lambda: process.poll() is not None):
            raise DemoError(f"the service did not start:\n{log.read_text(errors='replace')}")
        yield base, False
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _becomes_ready(base: str, has_ended: Callable[[], bool] = lambda: False) -> bool:
    """Wait until the service is ready; return False if it takes too long, or has ended."""
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(base, "readyz", "ready"):
        if has_ended() or time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _answers(base: str, check: str, status: str) -> bool:
    """Check whether a Wager service at this URL answers a health check with this status."""
    try:
        return bool(httpx2.get(f"{base}/{check}", timeout=2.0).json()["status"] == status)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, LookupError, TypeError):
        return False
