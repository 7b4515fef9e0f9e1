"""The laws of access for everybody: axe-core finds nothing anywhere, and the keyboard reaches and leaves everything."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LEARNT, RICH
from tests.browser.site import Site
from tests.browser.visits import Visit


@pytest.fixture(scope="session")
def places(site: Site) -> dict[str, str]:
    """Return addresses, each with a selector of what the page shows last."""
    site.create("untouched")
    made = site.send("/predict", {"model": LEARNT})["prediction_id"]
    model = f"models/{RICH}"
    return {
        "?search=fleet-00": "table.models",
        "?search=nothing": "p.panel",
        "new": "#labels",
        model: "table.rounds",
        f"{model}/try": "#t-predict",
        f"{model}/settings": "#f-flags",
        f"{model}/shadows": "table.shadows",
        f"{model}/evaluation": "table.policies",
        f"{model}/history": ".timeline",
        f"{model}/manage": "#m-end",
        "models/untouched": "#s-first",
        "models/none": ".state-panel",
        f"decisions/{made}": "table.probabilities",
        "decisions/none": ".state-panel",
        "nowhere": ".state-panel",
    }


@pytest.mark.parametrize("window", ["visit", "mobile"], ids=["light, 1280", "dark, 390"])
def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    request: pytest.FixtureRequest, places: dict[str, str], window: str
) -> None:
    """Every place passes all rules of axe-core, contrast included, and fits the window; so does an open dialog."""
    opened: Visit = request.getfixturevalue(window)
    page = opened.load(key=None)
    expect(page.locator("#key")).to_be_visible()
    assert opened.findings() == []
    opened.enter(opened.site.key)
    found = {}
    for place, selector in places.items():
        page.evaluate("place => { location.hash = `#/${place}`; }", place)
        expect(page.locator(selector)).to_be_visible()
        for summary in page.locator("summary").all():
            summary.click()
        assert page.locator("h1").count() == 1, place
        found[place] = opened.findings() + ([] if opened.fits() else [("scrolls", place)])
    opened.go(f"models/{RICH}/manage", RICH)
    page.locator("#m-end").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found["dialog"] = opened.findings()
    assert {place: findings for place, findings in found.items() if findings} == {}


def test_the_keyboard_enters_and_leaves_dialogs_and_skips_the_heading(visit: Visit, places: dict[str, str]) -> None:  # noqa: ARG001
    """A dialog keeps the focus, Escape closes it, and the focus returns; the skip link leads to the content."""
    page = visit.load(f"models/{RICH}/manage")
    opener = page.locator("#m-end").get_by_role("button", name="Reset")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('dialog, body').matches('dialog, :not(:has(:focus))')")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    page.evaluate("document.activeElement.blur()")
    visit.go("new", "New model")
    expect(page.locator("main")).to_be_focused()
    page.locator("a.skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("h1")).to_have_text("New model")
    page.keyboard.press("Tab")
    expect(page.get_by_label("What is it called?")).to_be_focused()
