"""A page of the dashboard, as its user sees it."""

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import BrowserContext, Locator, Page, Request, expect

from tests.browser.site import Site

PATIENCE = 60_000.0  # milliseconds, for a busy machine

_AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""

expect.set_options(timeout=PATIENCE)


class Command(NamedTuple):
    """A request, as the curl command in a dialog shows it."""

    method: str
    url: str
    headers: dict[str, str]
    body: Any


def command_of(text: str) -> Command:
    """Read a curl command with the long options that the page uses."""
    program, *words = shlex.split(text.replace("\\\n", " "))
    assert program == "curl"
    method, url, body, headers = "GET", "", None, {}
    while words:
        match words.pop(0):
            case "--request":
                method = words.pop(0)
            case "--header":
                name, _, value = words.pop(0).partition(": ")
                headers[name.lower()] = value
            case "--data":
                body = json.loads(words.pop(0))
            case word:
                assert word.startswith("http"), word
                url = word
    return Command(method, url, headers, body)


class Visit:
    """A page, and everything it asked for.

    Args:
        context: the browser's context.
        site: the service.
    """

    def __init__(self, context: BrowserContext, site: Site) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.requests: list[Request] = []
        self.errors: list[str] = []
        self.site = site
        self.page.add_init_script(_WATCH)
        self.page.on("request", lambda request: self.requests.append(request))  # noqa: PLW0108  playwright cannot wrap methods of lists
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def load(self, place: str = "", key: str | None = "") -> Page:
        """Load the page at an address, and enter the site's key, another one, or none if `key` is None."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.site.url}/#/{place}")
        if key is not None:
            self.enter(key or self.site.key)
            expect(self.page.locator("#key")).to_have_count(0)
        return self.page

    def enter(self, key: str) -> None:
        self.page.fill("#key", key)
        self.page.press("#key", "Enter")

    def go(self, place: str, heading: str) -> Page:
        """Follow an address within the loaded page, until its heading has come."""
        self.page.evaluate("place => { location.hash = `#/${place}`; }", place)
        expect(self.page.get_by_role("heading", level=1, name=heading, exact=True)).to_be_attached()
        return self.page

    def form(self, name: str) -> Locator:
        return self.page.get_by_role("form", name=name, exact=True)

    def confirm(self, button: str) -> Any:
        """Press the dialog's button; check that the page sends what the dialog shows. Returns the answer."""
        dialog = self.page.get_by_role("dialog")
        text = dialog.locator("pre").inner_text()
        shown = command_of(text)
        with self.page.expect_response(lambda one: (one.request.method, one.url) == shown[:2]) as caught:
            dialog.get_by_role("button", name=button, exact=True).click()
        sent = caught.value.request
        assert self.site.key not in text
        assert (shown.headers["authorization"], sent.headers["authorization"]) == (
            "Bearer $WAGER_API_KEY",
            f"Bearer {self.site.key}",
        )
        for name in ("if-match", "content-type") if shown.body else ("if-match",):
            assert shown.headers.get(name) == sent.headers.get(name)
        assert shown.body == sent.post_data_json
        assert caught.value.ok, caught.value.text()
        expect(dialog).to_have_count(0)
        return caught.value.json() if caught.value.status != 204 else None

    def check(self) -> None:
        """Check that nothing left the origin, no policy was violated, and no script failed."""
        urls = {request.url.removeprefix("blob:") for request in self.requests}
        assert {url for url in urls if not url.startswith((self.site.url, "about:"))} == set()
        assert self.page.evaluate("window.violations ?? []") == []
        assert self.errors == []

    def findings(self) -> list[tuple[str, str]]:
        """Return what axe-core finds on the page, with the element."""
        if self.page.evaluate("typeof axe") == "undefined":
            self.page.evaluate(_AXE)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        return [(each["id"], node["html"]) for each in found for node in each["nodes"]]

    def fits(self) -> bool:
        """Check that the page does not scroll sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def text(element: Locator) -> str:
    """Return an element's text in one line."""
    return " ".join(element.inner_text().split())


def percent(share: float) -> set[str]:
    """Return a share as the page may show it; Python and the browser round halves differently."""
    return {f"{share + half:.1%}" for half in (-1e-9, 1e-9)}
