"""One server with API keys and more than 100 models, and one browser, for all tests of the dashboard."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser.site import Site
from tests.browser.visits import Visit
from tests.client.conftest import built, node  # noqa: F401  fixtures
from tests.servers import wait_until
from tests.service.wager import serve

CHROMIUM = shutil.which("chromium")
LEARNT, RICH, TROUBLED, MANY = "front-page", "rich", "fleet-fallen", 119
ROUNDS = 2_000
MARKUP = "<b>bold</b>"

_ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH")
    with serve(tmp_path_factory.mktemp("site"), WAGER_AUTH="required", WAGER_KEY_CACHE_SECONDS="0") as wager:
        site = Site(wager.url, wager.store_url)
        with site.api:
            _fill(site)
            yield site


def _fill(site: Site) -> None:
    site.create(LEARNT, ["sports", "politics", "science"])
    site.teach(LEARNT, ROUNDS, {"sports": 0.1, "politics": 0.2, "science": 0.7})
    _fill_rich(site)
    site.create(TROUBLED)
    for mean in (1.0, 0.0):
        site.teach(TROUBLED, 1_000, {"a": mean, "b": mean})
    for i in range(MANY):
        site.create(f"fleet-{i:03}")
    for name in (LEARNT, RICH, TROUBLED):
        site.wait_for_fold(name)
    wait_until(lambda: site.ask("/statistics?search=fleet-&limit=1")["attention"] == 1)


def _fill_rich(site: Site) -> None:
    """Create a model with something in each part of its page."""
    policies = {
        "reward": "clicks",
        "holdout": {"fraction": 0.3, "policy": "uniform"},
        "costs": {"a": 0.1},
        "rules": {"floor": {MARKUP: 0.3}, "cap": {"a": 0.7}},
    }
    site.create(RICH, ["a", "c", MARKUP], **policies)
    site.api.put(f"/models/{RICH}/shadows/rival", json={"learner": "squarecb"}).raise_for_status()
    means = {"a": 0.1, "c": 0.3, MARKUP: 0.7}
    site.teach(RICH, 1_000, means)
    site.send(f"/models/{RICH}/snapshots", {"id": "kept", "note": MARKUP})
    site.patch(RICH, {"labels": {"retire": ["c"]}})
    site.teach(RICH, 100, means)


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Browser]:  # noqa: ARG001  skips without chromium, before it is started
    """Start a browser for one file: while it runs, no other test of the process can run an event loop."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        yield running
        running.close()


def _context(browser: Browser, **options: Any) -> Iterator[BrowserContext]:
    context = browser.new_context(reduced_motion="reduce", **options)
    yield context
    context.close()


@pytest.fixture(scope="module")
def desktop(browser: Browser) -> Iterator[BrowserContext]:
    yield from _context(browser, viewport={"width": 1280, "height": 800}, color_scheme="light")


@pytest.fixture(scope="module")
def phone(browser: Browser) -> Iterator[BrowserContext]:
    yield from _context(browser, viewport={"width": 390, "height": 800}, color_scheme="dark")


def _visit(context: BrowserContext, site: Site) -> Iterator[Visit]:
    opened = Visit(context, site)
    yield opened
    opened.check()
    opened.page.close()


@pytest.fixture
def visit(desktop: BrowserContext, site: Site) -> Iterator[Visit]:
    """Open a page in a wide window."""
    yield from _visit(desktop, site)


@pytest.fixture
def mobile(phone: BrowserContext, site: Site) -> Iterator[Visit]:
    """Open a page on a phone."""
    yield from _visit(phone, site)
