"""The laws of the list of models: it finds any of them, in any order, and says how they are."""

import json
import re

from playwright.sync_api import expect

from tests.browser.conftest import LEARNT, MANY, TROUBLED
from tests.browser.site import Site
from tests.browser.visits import Visit, percent, text

FOUND = MANY + 1  # models whose names contain "fleet-"


def test_models_are_searched_sorted_and_paged_and_the_address_keeps_it(visit: Visit, site: Site) -> None:
    """The search covers all pages; what needs attention comes first; a reload shows the same page again."""
    page = visit.load()
    everything = site.ask("/statistics?limit=1")
    lead, rows = page.locator(".lead"), page.locator("table.models tbody tr")
    expect(lead).to_have_text(re.compile(rf"{everything['total']} models, {everything['attention']} needs? attention"))
    page.fill("#search", "FLEET-")
    expect(lead).to_have_text(f"{FOUND} models with “FLEET-”, 1 needs attention")
    expect(rows.first).to_contain_text(TROUBLED)
    (reason,) = [m["attention"] for m in site.ask(f"/statistics?search={TROUBLED}")["models"]]
    assert reason in text(rows.first)
    page.select_option("#sort", "name")
    expect(rows.first).to_contain_text("fleet-000")
    expect(rows).to_have_count(100)
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(FOUND - 100)
    expect(rows.last).to_contain_text(TROUBLED)
    kept = page.url
    page.reload()
    visit.enter(site.key)
    expect(rows).to_have_count(FOUND - 100)
    assert page.url == kept
    assert (page.input_value("#search"), page.input_value("#sort")) == ("FLEET-", "name")
    page.get_by_role("link", name="First page").click()
    expect(rows.first).to_contain_text("fleet-000")
    page.fill("#search", "no-such-name")
    expect(page.locator("main")).to_contain_text("No model’s name contains “no-such-name”")
    page.get_by_role("link", name="Show all models").click()
    page.select_option("#sort", "traffic")
    expect(rows.nth(1)).to_contain_text(re.compile(f"{LEARNT}|{TROUBLED}"))
    page.select_option("#sort", "reward")
    expect(rows.first).to_contain_text(site.ask("/statistics?sort=reward&limit=1")["models"][0]["name"])


def test_one_request_shows_100_models(visit: Visit) -> None:
    page = visit.load()
    expect(page.locator("table.models tbody tr")).to_have_count(100)
    asked = [request.url for request in visit.requests if "/statistics" in request.url]
    assert len(asked) == 1


def test_a_phone_shows_verdict_and_number_beside_the_longest_name(mobile: Visit, site: Site) -> None:
    """A name of 64 letters pushes neither the verdict nor the number away, and nothing scrolls sideways."""
    name = site.create("long-" + "w" * 59)
    site.teach(name, 60, {"a": 1.0, "b": 1.0})
    site.wait_for_fold(name)
    page = mobile.load(f"?search={name}")
    row = page.locator("table.models tbody tr")
    expect(row).to_have_count(1)
    assert mobile.fits()
    for cell in (row.locator(".pill"), row.locator("strong")):
        box = cell.bounding_box()
        assert box is not None
        assert (box["x"] >= 0, box["x"] + box["width"] <= 390) == (True, True)
    assert text(row.locator("strong")) in percent(1.0)
    mobile.go(f"models/{name}", name)
    expect(page.locator(".tiles")).to_be_visible()
    assert mobile.fits()


def test_polls_get_304_and_pause_while_hidden(visit: Visit) -> None:
    visit.page.clock.install()
    page = visit.load()
    expect(page.locator("table.models")).to_be_visible()
    with page.expect_response(lambda response: "/statistics" in response.url) as caught:
        page.clock.run_for(2_000)
    assert caught.value.status == 304
    hide = (
        "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.evaluate(hide, True)
    expect(page.locator("#status")).to_have_text("Paused")
    visit.requests.clear()
    page.clock.run_for(60_000)
    assert visit.requests == []
    with page.expect_response(lambda response: "/statistics" in response.url):
        page.evaluate(hide, False)
    expect(page.locator("#status")).to_contain_text("Live")


def test_failures_have_their_words_and_end(visit: Visit) -> None:
    """The page says what is wrong, keeps what it has read, and goes on as soon as the service answers again."""
    visit.page.clock.install()
    problem = json.dumps({"type": "urn:wager:problem:x", "status": 503, "detail": "the reason"})
    page = visit.page
    page.route(
        "**/statistics*", lambda route: route.fulfill(status=503, body=problem, content_type="application/problem+json")
    )
    visit.load()
    expect(page.locator("h1")).to_have_text("The store does not answer")
    expect(page.get_by_role("alert")).to_have_text("the reason")
    expect(page.locator("#status")).to_contain_text("No answer")
    page.unroute("**/statistics*")
    page.clock.run_for(2_000)
    expect(page.locator("table.models")).to_be_visible()
    page.route("**/statistics*", lambda route: route.abort())
    page.clock.run_for(2_000)
    expect(page.locator("div.problem")).to_contain_text("This page may be old. The service does not answer")
    expect(page.locator("table.models")).to_be_visible()
    page.unroute("**/statistics*")
    page.clock.run_for(2_000)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#status")).to_contain_text("Live")
