"""The laws of keys: one is asked for and kept in memory only, and what it may not do is not offered."""

from playwright.sync_api import expect

from tests.browser.conftest import LEARNT
from tests.browser.site import Site
from tests.browser.visits import Visit

TABS = ["Overview", "Try", "Settings", "Shadows", "Evaluation", "History", "Manage"]


def test_the_key_is_asked_for_and_kept_in_memory_only(visit: Visit, site: Site) -> None:
    """Without a key the page has no data; a wrong key is refused; the right one is not stored anywhere."""
    page = visit.load(key=None)
    expect(page.locator("h1")).to_have_text("This service needs an API key")
    visit.enter("wk_000000000000_" + "0" * 64)
    expect(page.locator("h1")).to_have_text("The key was refused")
    expect(page.get_by_role("alert")).not_to_be_empty()
    assert not [request.url for request in visit.requests if "/statistics" in request.url]
    visit.enter(site.key)
    expect(page.locator("table.models")).to_be_visible()
    kept = "[{...localStorage}, {...sessionStorage}, document.cookie, location.href, document.body.outerHTML]"
    assert site.key not in page.evaluate(f"JSON.stringify({kept})")
    assert page.context.cookies() == []
    assert not [request.url for request in visit.requests if site.key in request.url]
    page.get_by_role("button", name="Forget key").click()
    expect(page.locator("#key")).to_be_visible()
    visit.enter(site.key)
    expect(page.locator("table.models")).to_be_visible()
    page.reload()
    expect(page.locator("#key")).to_be_visible()


def test_a_forgotten_key_leaves_nothing_behind(visit: Visit, site: Site) -> None:
    """Neither the address, nor what screen readers hear, nor an entry is there for the next user of the page."""
    name = site.create("private")
    page = visit.load(f"models/{name}/settings")
    expect(page.locator("#live")).to_contain_text(name)
    visit.form("Labels").get_by_label("Add").fill("entered")
    page.get_by_role("button", name="Forget key").click()
    expect(page.locator("#key")).to_be_visible()
    assert name not in page.content() + page.url + page.title()
    visit.enter(site.key)
    visit.go(f"models/{name}/settings", name)
    expect(visit.form("Labels").get_by_label("Add")).to_have_value("")


def test_a_revoked_key_is_replaced_without_losing_entries(visit: Visit, site: Site) -> None:
    """A page whose key ends says so above what it shows; the entries of a form wait for the next key."""
    name = site.create("revoked")
    first = site.new_key(["read", "admin"])
    page = visit.load(f"models/{name}/settings", first.text)
    form = visit.form("Labels")
    form.get_by_label("Add").fill("entered")
    site.revoke(first)
    banner = page.locator("div.problem")
    expect(banner).to_contain_text("The key was refused; it may have expired")
    second = site.new_key(["read", "admin"])
    visit.enter(second.text)
    expect(banner).to_have_count(0)
    expect(page.locator("#status")).to_contain_text("Live")
    expect(form.get_by_label("Add")).to_have_value("entered")
    site.revoke(second)
    form.get_by_role("button", name="Review the change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_contain_text("It may have expired or been revoked: enter another one, then apply again")
    dialog.get_by_label("API key").fill(site.key)
    dialog.get_by_label("API key").press("Enter")
    expect(page.locator("#status")).to_contain_text("Live")
    visit.confirm("Apply")
    assert site.ask(f"/models/{name}")["labels"] == ["a", "b", "entered"]


def test_a_key_that_only_reads_is_offered_no_change(visit: Visit, site: Site) -> None:
    name = site.create("read-only", ["a", "b"])
    site.send(f"/models/{name}/snapshots", {"id": "kept"})
    site.api.put(f"/models/{name}/shadows/rival", json={"learner": "squarecb"}).raise_for_status()
    page = visit.load("", site.new_key(["read"]).text)
    expect(page.locator("table.models")).to_be_visible()
    assert page.get_by_role("link", name="New model").count() == 0
    visit.go(f"models/{name}", name)
    tabs = page.get_by_role("navigation", name="Parts of the model").get_by_role("link")
    expect(tabs).to_have_text([tab for tab in TABS if tab != "Try"])
    expected = {"shadows": "Shadows", "history": "Snapshots", "manage": "Copies", "settings": "Labels"}
    for tab, heading in expected.items():
        visit.go(f"models/{name}/{tab}", name)
        expect(page.get_by_role("heading", level=2, name=heading, exact=True)).to_be_visible()
        if tab in ("shadows", "history"):
            expect(page.get_by_role("table")).to_contain_text("rival" if tab == "shadows" else "kept")
        offered = page.locator("main button:visible").all_inner_texts()
        assert offered == (["Export"] if tab == "manage" else [])
    assert page.locator("main :is(input, select, textarea):enabled").count() == 0
    visit.go("new", "This key may not create models")
    page.evaluate("location.hash = '#/models/read-only/try'")
    expect(page.locator("main")).to_contain_text("This needs a key with the scope predict")
    expect(page.get_by_role("button", name="Predict")).to_have_count(0)


def test_a_key_sees_only_its_models(visit: Visit, site: Site) -> None:
    """A key for other names sees none, not even by address; with the scope admin it may create the first."""
    page = visit.load("", site.new_key(["read"], "elsewhere-*").text)
    expect(page.locator("h1")).to_have_text("No models yet")
    expect(page.locator("main")).to_contain_text("A key with the scope admin creates the first one")
    page.evaluate(f"location.hash = '#/models/{LEARNT}'")
    expect(page.locator("h1")).to_have_text("The model is gone")
    expect(page.locator("main")).to_contain_text("never existed, or your key does not allow it")
    assert "science" not in page.content()
    visit.load("", site.new_key(["read", "admin"], "elsewhere-*").text)
    expect(page.locator("h1")).to_have_text("No models yet")
    page.locator("main").get_by_role("link", name="New model").click()
    expect(page.locator("h1")).to_have_text("New model")
    expect(page.get_by_text("Your key allows names that match elsewhere-*.")).to_have_count(2)
    site.create("elsewhere-1")
    visit.go("models/elsewhere-1/manage", "elsewhere-1")
    expect(page.get_by_text("Your key allows names that match elsewhere-*.")).to_have_count(1)
    visit.load(key=None)
    visit.enter(site.new_key(["predict"]).text)
    expect(page.locator("main")).to_contain_text("this page needs the scope read")
