"""The laws of the page of a decision, and of addresses that lead nowhere."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visits import Visit, text


def test_a_decision_is_found_by_its_id_and_explained(visit: Visit, site: Site) -> None:
    """The page shows the API's probabilities, which sum to 1, the answer, its rules, and what became of it."""
    name = site.create("decided", ["a", "b", "c"], rules={"floor": {"c": 0.4}}, features={"kind": "named"})
    made = site.send("/predict", {"model": name, "context": {"hour": 7}})
    visit.page.clock.install()
    page = visit.load()
    page.get_by_label("Find a prediction by its id").fill(made["prediction_id"])
    page.get_by_label("Find a prediction by its id").press("Enter")
    expect(page.locator("h1")).to_have_text(made["label"])
    decision = site.ask(f"/predictions/{made['prediction_id']}")
    rows = page.locator("table.probabilities tbody tr")
    shown = {text(row.locator(".name")): text(row.locator("td").first) for row in rows.all()}
    assert shown == {label: f"{share:.4f}" for label, share in decision["distribution"].items()}
    assert sum(map(float, shown.values())) == pytest.approx(1.0, abs=2e-4)
    drawn = rows.filter(has=page.locator(".tag", has_text="drawn"))
    expect(drawn.locator(".name")).to_have_text([made["label"]])
    expect(page.locator(".lead")).to_contain_text(f"{made['propensity']:.4f}")
    expect(page.get_by_role("row", name="floor.c")).to_contain_text("at least 40.0%")
    expect(page.locator("#d-request")).to_contain_text('"hour": 7')
    expect(page.locator("#d-outcome")).to_contain_text("It waits for feedback")
    site.send("/feedback", {"prediction_id": made["prediction_id"], "correct": True})
    page.clock.run_for(5_000)
    expect(page.locator("#d-outcome")).to_contain_text("Correct")
    expect(page.locator("#d-outcome")).to_contain_text("1.000")


def test_the_random_number_lies_among_those_of_the_answer(visit: Visit, site: Site) -> None:
    """Also if labels are numbers, which JavaScript would put in another order."""
    name = site.create("numbered", ["10", "2", "1", "007"])
    for _ in range(4):
        made = site.send("/predict", {"model": name})
        visit.load(f"decisions/{made['prediction_id']}")
        expect(visit.page.locator("h1")).to_have_text(made["label"])
        u, low, high = map(float, re.findall(r"\d\.\d+", text(visit.page.locator("#d-draw p"))))
        assert low - 1e-4 <= u <= high + 1e-4
        assert low == pytest.approx(0.25 * ["10", "2", "1", "007"].index(made["label"]), abs=1e-4)


def test_addresses_that_lead_nowhere_say_so(visit: Visit) -> None:
    """An unknown id says what an id looks like, and a mistyped address that it may be mistyped."""
    page = visit.load()
    for id_ in ("nonsense", "front-page:0123456789abcdef", "none:~AaIaY1Rm8a5pu4kXEsXq:1"):
        page.get_by_label("Find a prediction by its id").fill(id_)
        page.get_by_label("Find a prediction by its id").press("Enter")
        expect(page.locator(".state-panel code").first).to_have_text(id_)
        expect(page.locator("main")).to_contain_text("The id is the prediction_id in the answer to a prediction")
    for place in (
        "nowhere",
        "models",
        "models/front-page/nowhere",
        "models/front-page/settings/more",
        "new/er",
        "%zz",
        "models/..",
        "models/../settings",
        "decisions/..",
    ):
        visit.go(place, "There is no such page")
        expect(page.locator("main")).to_contain_text("The address may be mistyped")
    visit.go("models/none", "The model is gone")
