"""The laws of errors: the API's words stand at the field, entries stay, and nothing is overwritten."""

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.site import Site
from tests.browser.visits import Visit


def described(field: Locator) -> str:
    """Return the texts that describe a field, as screen readers say them."""
    return str(
        field.evaluate(
            "field => (field.getAttribute('aria-describedby') ?? '').split(' ').filter(Boolean)"
            ".map(id => document.getElementById(id).textContent).join(' ')"
        )
    )


def test_a_refusal_stands_at_its_field_in_the_words_of_the_api(visit: Visit, site: Site) -> None:
    """A refused field is marked as invalid, and has the message that the API gives; every entry stays."""
    name = site.create("refused")
    page = visit.load(f"models/{name}/settings")
    refusals = [
        ("Labels", {"Add": "a"}, "Add", {"labels": {"add": ["a"]}}),
        ("Feedback", {"Window in seconds": "-5"}, "Window in seconds", {"window_seconds": -5}),
        (
            "Holdout",
            {"Share of the requests (%)": "100"},
            "Share of the requests (%)",
            {"holdout": {"fraction": 1, "policy": "uniform"}},
        ),
        ("Costs and budget", {"Costs of labels": '{"none": 1}'}, "Costs of labels", {"costs": {"none": 1}}),
        ("Costs and budget", {"Weight of costs": "-1"}, "Weight of costs", {"cost_weight": -1}),
        (
            "Rules",
            {"Every answer, at least (%)": "150"},
            "Every answer, at least (%)",
            {"rules": {"floor": {}, "cap": {}, "floor_each": 1.5, "groups": {}}},
        ),
        ("Log and freshness", {"Latest rounds to keep": "-1"}, "Latest rounds to keep", {"retain_rounds": -1}),
    ]
    for title, entries, refused, body in refusals:
        form = visit.form(title)
        for label, value in entries.items():
            form.get_by_label(label).fill(value)
        form.get_by_role("button", name="Review the change").click()
        page.get_by_role("dialog").get_by_role("button", name="Apply").click()
        field = form.get_by_label(refused)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_role("dialog")).to_have_count(0)
        answer = site.api.patch(f"/models/{name}", json=body, headers={"If-Match": "*"})
        assert (answer.status_code, answer.json()["detail"] in described(field)) == (422, True), answer.text
        for label, value in entries.items():
            expect(form.get_by_label(label)).to_have_value(value)
        form.get_by_role("button", name="Undo entries").click()
        expect(field).not_to_have_attribute("aria-invalid", "true")
    assert site.ask(f"/models/{name}")["changes"]["count"] == 0


def test_a_change_of_somebody_else_is_not_overwritten(visit: Visit, site: Site) -> None:
    """A stale page says so and changes nothing; after the model is read again, the entries can be applied."""
    name = site.create("stale")
    page = visit.load(f"models/{name}/settings")
    form = visit.form("Costs and budget")
    form.get_by_label("Costs of labels").fill('{"a": 3}')
    site.patch(name, {"cost_weight": 0.5})
    labels = visit.form("Labels")
    labels.get_by_label("Add").fill("c")
    labels.get_by_role("button", name="Review the change").click()
    page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    page.get_by_role("dialog").get_by_role("button", name="Read the model again").click()
    labels.get_by_role("button", name="Review the change").click()
    visit.confirm("Apply")
    expect(labels).to_contain_text("3 labels in use")  # so the page has read the other change, too
    form.get_by_role("button", name="Review the change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_contain_text("Somebody changed the model after this page had read it")
    assert site.ask(f"/models/{name}")["costs"] is None
    dialog.get_by_role("button", name="Read the model again").click()
    expect(form.get_by_label("Weight of costs")).to_have_value("0.5")
    expect(form.get_by_label("Costs of labels")).to_have_value('{"a": 3}')
    form.get_by_role("button", name="Review the change").click()
    visit.confirm("Apply")
    model = site.ask(f"/models/{name}")
    assert (model["costs"], model["cost_weight"]) == ({"a": 3.0}, 0.5)


def test_a_change_of_the_same_thing_is_shown_before_it_is_replaced(visit: Visit, site: Site) -> None:
    """After the model is read again, the page shows what the entries would replace, and offers to take it."""
    name = site.create("twice", rules={"floor": {"a": 0.1}})
    page = visit.load(f"models/{name}/settings")
    rules, log = visit.form("Rules"), visit.form("Log and freshness")
    rules.get_by_label("Percent").fill("20")
    log.get_by_label("Latest rounds to keep").fill("5000")
    site.patch(name, {"rules": {"floor": {"a": 0.1}, "cap": {"b": 0.5}}})
    rules.get_by_role("button", name="Review the change").click()
    page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    page.get_by_role("dialog").get_by_role("button", name="Read the model again").click()
    expect(rules.locator(".warning")).to_contain_text('"kind":"cap","name":"b"')
    site.patch(name, {"rules": {"floor": {"a": 0.3}, "cap": {"b": 0.5}}})
    rules.get_by_role("button", name="Review the change").click()
    page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    expect(page.get_by_role("dialog")).to_contain_text("Somebody changed the model")
    page.get_by_role("dialog").get_by_role("button", name="Read the model again").click()
    expect(rules.locator(".warning")).to_contain_text('"bound":"30"')
    rules.get_by_role("button", name="Take theirs").click()
    expect(rules.locator(".warning")).to_have_count(0)
    expect(rules.get_by_label("Percent").first).to_have_value("30")
    log.get_by_role("button", name="Review the change").click()
    page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    page.get_by_role("dialog").get_by_role("button", name="Read the model again").click()
    expect(log.locator(".warning")).to_have_count(0)  # nobody else has changed it
    log.get_by_role("button", name="Review the change").click()
    visit.confirm("Apply")
    model = site.ask(f"/models/{name}")
    assert (model["retain_rounds"], model["rules"]["floor"], model["rules"]["cap"]) == (5000, {"a": 0.3}, {"b": 0.5})


def test_two_forms_of_one_page_are_no_strangers(visit: Visit, site: Site) -> None:
    """A form goes on with the definition that another form of the page has made."""
    name = site.create("both")
    visit.load(f"models/{name}/settings")
    holdout, log = visit.form("Holdout"), visit.form("Log and freshness")
    holdout.get_by_label("Share of the requests").fill("5")
    log.get_by_label("Latest rounds to keep").fill("5000")
    for form in (holdout, log):
        form.get_by_role("button", name="Review the change").click()
        visit.confirm("Apply")
    model = site.ask(f"/models/{name}")
    assert (model["holdout"]["fraction"], model["retain_rounds"]) == (0.05, 5000)


@pytest.mark.parametrize("is_gone", [True, False], ids=["deleted", "unreachable"])
def test_a_change_that_cannot_be_made_says_why(visit: Visit, site: Site, is_gone: bool) -> None:
    """A deleted model and a lost connection have their own words; once it is back, the change can be applied."""
    name = site.create("vanishing" if is_gone else "unreachable")
    page = visit.load(f"models/{name}/settings")
    form = visit.form("Labels")
    form.get_by_label("Add").fill("c")
    form.get_by_role("button", name="Review the change").click()
    dialog = page.get_by_role("dialog")
    if is_gone:
        site.api.delete(f"/models/{name}").raise_for_status()
        dialog.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("The model is gone").or_(dialog.get_by_text("The model was deleted"))).to_be_visible()
        expect(page.locator("h1")).to_have_text("The model is gone")
        return
    page.route(f"**/models/{name}", lambda route: route.abort())
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("alert")).to_have_text("The service does not answer.")
    expect(dialog).to_contain_text("a change is never made twice")
    page.unroute(f"**/models/{name}")
    visit.confirm("Apply")
    assert site.ask(f"/models/{name}")["labels"] == ["a", "b", "c"]


def test_mistyped_entries_are_named_before_anything_is_sent(visit: Visit, site: Site) -> None:
    name = site.create("mistyped")
    page = visit.load(f"models/{name}/settings")
    rules = visit.form("Rules")
    for _ in range(2):
        rules.get_by_role("button", name="Add a rule").click()
        rules.get_by_label("Label or group").last.fill("a")
    rules.get_by_role("button", name="Review the change").click()
    expect(rules.get_by_role("alert")).to_contain_text("“a” has two rows of this kind")
    rules.get_by_role("button", name="Undo entries").click()
    for title, label, value, message in (
        ("Costs and budget", "Costs of labels", "a: 1", "is not JSON"),
        ("Costs and budget", "Costs of labels", "[1]", "must be an object in JSON"),
        ("Rules", "Every answer, at least (%)", "1e", "must be a number, such as 0.5; got “1e”"),
        ("Holdout", "Share of the requests (%)", "10,5", "must be a number"),
        ("Holdout", "Share of the requests (%)", "", "must be a number"),
        ("Log and freshness", "Latest rounds to keep", "1e999", "must be a number"),
        ("Labels", "Add", " ", "nothing is changed yet"),
    ):
        form = visit.form(title)
        form.get_by_label(label).fill(value)
        form.get_by_role("button", name="Review the change").click()
        expect(form.get_by_role("alert")).to_contain_text(message)
    visit.go(f"models/{name}/shadows", name)
    visit.go(f"models/{name}/settings", name)
    expect(visit.form("Holdout").get_by_label("Answered by")).to_have_value("uniform")
    expect(visit.form("Rules").get_by_label("Every answer, at least (%)")).to_have_value("1e")  # entries have stayed
    visit.go(f"models/{name}/shadows", name)
    page.get_by_label("Name").fill("rival")
    page.get_by_label("Hyperparameters").fill("{")
    page.get_by_role("button", name="Review").click()
    expect(visit.form("Add a shadow").get_by_role("alert")).to_contain_text("is not JSON")
    assert [request for request in visit.requests if request.method != "GET"] == []
