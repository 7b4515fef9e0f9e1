"""The laws of failures: a late, cut or lost answer is named, ends nothing, and hides no change that was made."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import LEARNT
from tests.browser.site import Site
from tests.browser.visits import Visit

CUT = "The answer was cut off, or is not the service’s."


def answer_to(page: Page, pattern: str, method: str, handle: Callable[[Route], Any]) -> None:
    """Handle the requests with a method."""
    page.route(pattern, lambda route: handle(route) if route.request.method == method else route.fallback())


def hold(page: Page, pattern: str, method: str) -> list[Route]:
    """Hold back the requests with a method; return the list of them."""
    held: list[Route] = []
    answer_to(page, pattern, method, lambda route: held.append(route))  # noqa: PLW0108  playwright cannot wrap methods of lists
    return held


def first(page: Page, held: list[Route]) -> Route:
    """Return the first request that is held, once the page has sent it."""
    while not held:
        page.evaluate("0")  # the driver delivers requests only while it is called
    return held[0]


def lose_first(page: Page, pattern: str, method: str) -> None:
    """Let the requests with a method reach the service, and lose the first answer."""
    lost: list[Route] = []

    def lose(route: Route) -> None:
        if lost:
            return route.fallback()
        lost.append(route)
        route.fetch()
        return route.abort()

    answer_to(page, pattern, method, lose)


@pytest.mark.parametrize("body", ["<html>Log in</html>", '{"models": [', ""], ids=["page", "cut", "empty"])
def test_an_answer_that_cannot_be_read_does_not_end_the_polls(visit: Visit, body: str) -> None:
    visit.page.clock.install()
    page = visit.load()
    expect(page.locator("table.models")).to_be_visible()
    page.route("**/statistics*", lambda route: route.fulfill(status=200, body=body, content_type="application/json"))
    page.clock.run_for(2_000)
    expect(page.locator("div.problem")).to_contain_text(f"This page may be old. {CUT}")
    expect(page.locator("#status")).to_contain_text("No answer since")
    page.unroute("**/statistics*")
    page.clock.run_for(2_000)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#status")).to_contain_text("Live")


def test_a_service_that_hangs_is_not_called_live(mobile: Visit) -> None:
    """The status ages as soon as an answer is late; a poll without an answer fails, and the next one is sent."""
    page = mobile.load()
    expect(page.locator("table.models")).to_be_visible()
    hold(page, "**/statistics*", "GET")
    expect(page.locator("#status")).to_contain_text("Waiting since")
    expect(page.locator("#status")).to_contain_text("No answer since")
    expect(page.locator("div.problem")).to_contain_text("No answer within 10 seconds")
    assert mobile.fits()
    page.unroute("**/statistics*")
    expect(page.locator("#status")).to_contain_text("Live")


def test_a_change_whose_answer_is_cut_can_be_sent_again(visit: Visit, site: Site) -> None:
    name = site.create("cut-answer")
    page = visit.load(f"models/{name}/manage")
    answer_to(page, f"**/models/{name}", "PATCH", lambda route: route.fulfill(body=route.fetch().text()[:20]))
    page.get_by_role("button", name="Freeze", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Freeze").click()
    expect(dialog.get_by_role("alert")).to_have_text(CUT)
    expect(dialog).to_contain_text("perhaps the change was made all the same")
    page.unroute(f"**/models/{name}")
    visit.confirm("Freeze")
    assert site.ask(f"/models/{name}")["mode"] == "frozen"


def test_a_dialog_stays_until_its_request_is_answered(visit: Visit, site: Site) -> None:
    """Neither Cancel nor Escape leaves it before that, and its failure is shown."""
    name = site.create("patient")
    page = visit.load(f"models/{name}/manage")
    held = hold(page, f"**/models/{name}", "PATCH")
    page.get_by_role("button", name="Freeze", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Freeze").click()
    expect(dialog.get_by_role("status")).to_have_text("The request is being sent.")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_disabled()
    for _ in range(3):
        page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    first(page, held).abort()
    expect(dialog.get_by_role("alert")).to_have_text("The service does not answer.")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def clone(visit: Visit, name: str) -> Locator:
    visit.go("models/source/manage", "source")
    visit.page.get_by_label("Clone as").fill(name)
    visit.page.get_by_role("button", name="Clone").click()
    return visit.page.get_by_role("dialog").locator("button[type=submit]")


def create(visit: Visit, name: str) -> Locator:
    form = visit.go("new", "New model").locator("form.creation")
    form.get_by_label("What is it called?").fill(name)
    form.get_by_label("The options").fill("a\nb")
    return form.locator("button[type=submit]")


def import_(visit: Visit, name: str) -> Locator:
    visit.go("new", "New model")
    form = visit.form("Or import a model")
    form.get_by_label("Name of the new model").fill(name)
    content = visit.site.api.get("/models/source/export").content
    form.get_by_label("File of an export").set_input_files({"name": "x", "mimeType": "", "buffer": content})
    return form.locator("button[type=submit]")


MAKERS = pytest.mark.parametrize(
    ("fill", "pattern"),
    [(clone, "**/clone"), (create, "**/models"), (import_, "**/import")],
    ids=["clone", "creation", "import"],
)
Fill: TypeAlias = Callable[[Visit, str], Locator]


@pytest.fixture(scope="module")
def source(site: Site) -> str:
    """Create the model that is copied."""
    return site.create("source")


@MAKERS
def test_a_late_answer_takes_nobody_away(visit: Visit, site: Site, source: str, fill: Fill, pattern: str) -> None:  # noqa: ARG001
    """What was made while its user went elsewhere is made once, and the user stays there."""
    page, name = visit.load(), f"late-{fill.__name__}"
    expect(page.locator("table.models")).to_be_visible()
    button = fill(visit, name)
    held = hold(page, pattern, "POST")
    button.click()
    expect(button).to_be_disabled()
    expect(button).to_contain_text("…")
    visit.go(f"models/{LEARNT}", LEARNT)
    (route,) = held
    with page.expect_response(route.request.url) as caught:
        route.continue_()
    caught.value.finished()
    page.evaluate("new Promise((done) => setTimeout(done))")  # so the page has seen the answer
    assert page.evaluate("location.hash") == f"#/models/{LEARNT}"
    assert site.ask(f"/models/{name}")["name"] == name


@MAKERS
def test_what_was_made_is_not_refused_when_it_is_sent_again(
    visit: Visit,
    source: str,  # noqa: ARG001
    fill: Fill,
    pattern: str,
) -> None:
    page, name = visit.load(), f"lost-{fill.__name__}"
    expect(page.locator("table.models")).to_be_visible()
    button = fill(visit, name)
    lose_first(page, pattern, "POST")
    button.click()
    expect(page.get_by_role("alert")).to_have_text("The service does not answer.")
    button.click()
    expect(page.locator("h1")).to_have_text(name)


def test_a_name_that_was_taken_before_is_refused(visit: Visit, source: str) -> None:  # noqa: ARG001
    page = visit.load()
    clone(visit, LEARNT).click()
    expect(page.get_by_label("Clone as")).to_have_attribute("aria-invalid", "true")


def test_a_deletion_without_an_answer_is_not_refused_when_it_is_sent_again(visit: Visit, site: Site) -> None:
    name = site.create("lost-deletion")
    site.send(f"/models/{name}/snapshots", {"id": "kept"})
    page = visit.load(f"models/{name}/history")
    lose_first(page, "**/snapshots/kept", "DELETE")
    page.get_by_role("button", name="Delete kept").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_have_text("The service does not answer.")
    assert site.ask(f"/models/{name}/snapshots")["snapshots"] == []
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Delete kept")).to_have_count(0)


def test_rounds_that_are_not_read_are_not_called_none(visit: Visit) -> None:
    """While the rounds load, and after an error, the page does not say that there are none."""
    page = visit.load()
    rounds = page.locator("#s-rounds")
    held = hold(page, "**/rounds?*", "GET")
    visit.go(f"models/{LEARNT}", LEARNT)
    expect(rounds).to_contain_text("Loading…")
    problem = json.dumps({"type": "urn:wager:problem:x", "status": 503, "detail": "the reason"})
    first(page, held).fulfill(status=503, body=problem, content_type="application/problem+json")
    expect(rounds.get_by_role("alert")).to_have_text("the reason")
    expect(rounds).not_to_contain_text("No rounds")
    page.unroute("**/rounds?*")
    for route in held[1:]:
        route.continue_()
    expect(page.locator("table.rounds")).to_be_visible()


def test_learners_that_are_not_read_are_not_called_none(visit: Visit, site: Site) -> None:
    name = site.create("without-learners")
    page = visit.load()
    held = hold(page, "**/learners", "GET")
    visit.go(f"models/{name}/shadows", name)
    form = visit.form("Add a shadow")
    expect(form).to_contain_text("Loading the other learners…")
    first(page, held).abort()
    expect(form).to_contain_text("The other learners cannot be read. The service does not answer.")
    page.unroute("**/learners")
    for route in held[1:]:
        route.continue_()
    expect(form).not_to_contain_text("learners")


def test_feedback_is_sent_once_at_a_time(visit: Visit, site: Site) -> None:
    name = site.create("once")
    page = visit.load(f"models/{name}/try")
    page.get_by_role("button", name="Predict").click()
    held = hold(page, "**/feedback", "POST")
    page.get_by_role("button", name="Correct", exact=True).click()
    for button in ("Correct", "Wrong", "Send reward", "Send true label"):
        expect(page.get_by_role("button", name=button, exact=True)).to_be_disabled()
    first(page, held).continue_()
    expect(page.locator(".done")).to_have_text("Feedback recorded: round 1.")
    expect(page.get_by_role("button", name="Wrong", exact=True)).to_be_enabled()
