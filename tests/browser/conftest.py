"""One server with API keys and 100 models, and a browser, for all tests of the dashboard."""

import asyncio
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from service.access.key_admin import KeyAdmin
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.servers import wait_until
from tests.service.keyed import noise
from tests.service.wager import serve

CHROMIUM = shutil.which("chromium")
LEARNT, MANY = "front-page", 99
ROUNDS = 2_000

_ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


class Site(NamedTuple):
    """A running service, with a key for everything."""

    url: str
    key: str

    def ask(self, path: str) -> Any:
        with self.client() as client:
            return client.get(path).raise_for_status().json()

    def client(self) -> httpx2.Client:
        return httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=60.0, verify=False
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH")
    with serve(tmp_path_factory.mktemp("site"), WAGER_AUTH="required") as wager:
        site = Site(wager.url, asyncio.run(_new_key(wager.store_url)))
        with site.client() as client:
            _fill(client)
            wait_until(lambda: client.get(f"/models/{LEARNT}/statistics").json()["fold_lag"] == 0)
        yield site


async def _new_key(store_url: str) -> str:
    store = RedisStore(store_url, timeout=10.0)
    try:
        return (await KeyAdmin(ApiKeyTable(store.command), time.time, noise).create("browser", ["admin"])).text
    finally:
        await store.close()


def _fill(client: httpx2.Client) -> None:
    rng = random.Random(1)
    labels = ["sports", "politics", "science"]
    assert client.post("/models", json={"name": LEARNT, "labels": labels}).status_code == 201
    for _ in range(ROUNDS // 500):
        made = client.post("/predict/batch", json={"model": LEARNT, "contexts": [{}] * 500}).json()["predictions"]
        right = {"sports": 0.1, "politics": 0.2, "science": 0.7}
        given = [{"prediction_id": p["prediction_id"], "correct": rng.random() < right[p["label"]]} for p in made]
        assert client.post("/feedback/batch", json={"feedback": given}).status_code == 200
    for i in range(MANY):
        client.post("/models", json={"name": f"model-{i:02}", "labels": ["a", "b"]}).raise_for_status()


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Browser]:  # noqa: ARG001  skips without chromium, before it is started
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        yield running
        running.close()


class Visit:
    """A page, and everything it asked for.

    Args:
        context: the browser's context.
        site: the service.
    """

    def __init__(self, context: BrowserContext, site: Site) -> None:
        self.page: Page = context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._site = site
        self.page.add_init_script(_WATCH)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, place: str, selector: str = "h1") -> Page:
        self.page.goto(f"{self._site.url}/#/{place}")
        self.page.wait_for_selector(selector)
        return self.page

    def check(self) -> None:
        assert {url for url in self.requests if not url.startswith(self._site.url)} == set()
        assert self.page.evaluate("window.violations") == []
        assert self.errors == []


def visit(browser: Browser, site: Site, *, key: bool = True, **options: Any) -> Visit:
    context = browser.new_context(**options)
    if key:
        context.set_extra_http_headers({"Authorization": f"Bearer {site.key}"})
    return Visit(context, site)


@pytest.fixture
def opened(browser: Browser, site: Site) -> Iterator[Visit]:
    page = visit(browser, site)
    yield page
    page.check()
    page.page.context.close()


AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
