"""The laws of the dashboard, in a browser, on a running service."""

import json
import re

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import AXE, LEARNT, MANY, ROUNDS, Site, Visit, visit
from tests.servers import wait_until

SERIOUS = ("serious", "critical")
PLACES = ["", f"models/{LEARNT}", "new"]
MODEL = f"models/{LEARNT}"


def text(page: Page, selector: str) -> str:
    return " ".join(page.inner_text(selector).split())


def is_percent(shown: str, share: float) -> bool:
    """Check a share with one digit; Python and the browser round halves differently."""
    return shown in {f"{share + half:.1%}" for half in (-1e-9, 1e-9)}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_has_no_serious_findings(browser: Browser, site: Site, theme: str) -> None:
    """Every place passes axe-core's serious and critical rules, contrast included, in both themes and on a phone."""
    page = visit(browser, site, color_scheme=theme, viewport={"width": 400, "height": 800})
    for place in PLACES:
        page.page.goto("about:blank")
        page.open(place, "table, form.creation")
        if not place:  # ten models suffice
            page.page.fill("#filter", "model-0")
        page.page.evaluate(AXE)
        found = page.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        serious = [
            (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], place
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 400
        page.check()
    page.page.context.close()


def test_100_models_are_there_within_a_second(opened: Visit) -> None:
    times = []
    for _ in range(3):
        opened.page.goto("about:blank")
        opened.requests.clear()
        page = opened.open("", f"tbody tr:nth-child({MANY + 1})")
        times.append(page.evaluate("performance.now()"))
        assert len([url for url in opened.requests if "/statistics" in url]) == 1
    assert min(times) < 1000, times
    assert re.match(rf"{MANY + 1} models, .*{MANY} exploring", text(page, ".lead"))


def test_a_model_agrees_with_its_log(opened: Visit, site: Site) -> None:
    with site.client() as client:
        log = [json.loads(line) for line in client.get(f"/{MODEL}/rounds?limit=10000").text.splitlines()]
    page = opened.open(MODEL, ".rounds table")
    assert len(log) == ROUNDS
    right = sum(line["correct"] for line in log)
    tiles = dict(
        zip(page.locator(".tile dt").all_inner_texts(), page.locator(".tile .value").all_inner_texts(), strict=True)
    )
    assert tiles["Rounds"] == f"{ROUNDS:,}"
    assert is_percent(tiles["Accuracy, all rounds"], right / ROUNDS)
    for row in page.locator("table.labels tbody tr").all():
        label = row.locator("th").inner_text().split()[0]
        assert row.locator("td").first.inner_text() == f"{sum(line['label'] == label for line in log):,}"
    assert page.locator("table.rounds tbody tr").count() == 15
    statistics = site.ask(f"/{MODEL}/statistics")
    assert text(page, ".verdict").lower().startswith(statistics["verdict"]["verdict"].replace("_", " "))
    assert statistics["verdict"]["reason"] in text(page, ".verdict")
    tagged = page.locator("table.labels tr", has=page.locator(".tag"))
    assert tagged.locator("th").inner_text().split() == [statistics["best_label"], "best", "alone"]
    page.click("summary")
    page.wait_for_selector(".curve tbody tr")
    assert page.locator(".curve tbody tr").count() == len(statistics["curve"]["points"])


def test_polls_get_304_and_pause_while_hidden(opened: Visit) -> None:
    page = opened.open("", "table.models")
    with page.expect_response(lambda response: "/statistics" in response.url) as caught:
        pass
    assert caught.value.status == 304
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    opened.requests.clear()
    page.wait_for_timeout(2500)
    assert opened.requests == []
    assert text(page, "#status") == "Paused"


def test_the_key_is_asked_for_and_kept_in_memory_only(browser: Browser, site: Site) -> None:
    """Without a key the page has no data; a wrong key is refused; the right one is not stored anywhere."""
    page = visit(browser, site, key=False)
    page.open("", "#key")
    assert "needs an API key" in text(page.page, "main")
    page.page.fill("#key", "wk_000000000000_" + "0" * 64)
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector(".problem")
    assert "refused" in text(page.page, "h1")
    page.page.fill("#key", site.key)
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("table.models")
    kept = "[{...localStorage}, {...sessionStorage}, document.cookie, location.href, document.body.outerHTML]"
    assert site.key not in page.page.evaluate(f"JSON.stringify({kept})")
    assert page.page.context.cookies() == []
    assert not [url for url in page.requests if site.key in url]
    page.page.reload()
    page.page.wait_for_selector("#key")
    page.check()
    page.page.context.close()


def test_failures_and_absence_have_their_words_and_end(opened: Visit, site: Site) -> None:
    """The page says what is wrong or missing, and shows data again as soon as there is any."""
    problem = json.dumps({"type": "urn:wager:problem:x", "status": 503, "detail": "the reason"})
    nothing = json.dumps({"models": [], "next_cursor": None})
    for status, body, title in ((503, problem, "The store does not answer"), (200, nothing, "No models yet")):
        kind = "application/problem+json" if status == 503 else "application/json"
        answer = {"status": status, "body": body, "content_type": kind}
        opened.page.route("**/statistics*", lambda route: route.fulfill(**answer))  # noqa: B023  unrouted below
        opened.page.goto("about:blank")
        page = opened.open("", ".state-panel")
        assert text(page, "h1") == title
        assert status == 200 or "the reason" in text(page, "main")
        page.unroute("**/statistics*")
        page.wait_for_selector("table.models")
    page.goto(f"{site.url}/#/models/none")
    page.wait_for_selector("h1:text('The model is gone')")


def test_a_model_is_created_and_taught_with_the_keyboard(opened: Visit, site: Site) -> None:
    """Tab and Enter suffice to create a model, predict, and give feedback; a refusal names the field."""
    page = opened.open("new", "form.creation")
    page.keyboard.type("typed")
    page.keyboard.press("Tab")
    page.keyboard.type("only")
    submit = page.locator("button[type=submit]")
    submit.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".problem")
    assert text(page, ".problem").startswith("labels: ")
    page.focus("#labels")
    page.keyboard.press("End")
    page.keyboard.type("\nother")
    submit.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Predict").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".drawn")
    assert re.search(r"drawn with probability 0\.5000", text(page, ".drawn"))
    page.get_by_role("button", name="Correct").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".done")
    assert text(page, ".done") == "Feedback recorded: round 1."
    model = site.ask("/models/typed")
    assert (model["labels"], model["rounds_seen"], model["correct"]) == (["only", "other"], 1, 1)
    with site.client() as client:
        client.delete("/models/typed").raise_for_status()


def test_abstentions_are_shown_apart(opened: Visit, site: Site) -> None:
    """The form judges an abstention by its true label; the tiles have the rate, and the accuracy of other rounds."""
    body = {"name": "abstaining", "labels": ["no", "yes", "abstain"], "learner": "adahedge"}
    with site.client() as client:
        client.post("/models", json=body | {"features": {"kind": "dense", "size": 2}}).raise_for_status()
        for context in ([1.0, 1.0], [0.0, 0.0]):
            id_ = client.post("/predict", json={"model": "abstaining", "context": context}).json()["prediction_id"]
            client.post("/feedback", json={"prediction_id": id_, "true_label": "yes"}).raise_for_status()
        page = opened.open("models/abstaining", "#context")
        page.get_by_role("button", name="Predict").click()
        page.wait_for_selector(".drawn")
        page.select_option("#truth", "yes")
        page.get_by_role("button", name="Send true label").click()
        page.wait_for_selector(".done")
        assert text(page, ".done") == "Feedback recorded, an abstention: round 3."
        wait_until(lambda: client.get("/models/abstaining/statistics").json()["fold_lag"] == 0)
        page.goto("about:blank")
        page = opened.open("models/abstaining", ".rounds table")
        tiles = dict(
            zip(page.locator(".tile dt").all_inner_texts(), page.locator(".tile .value").all_inner_texts(), strict=True)
        )
        assert (tiles["Reward, all rounds"], tiles["Accuracy, rounds answered"]) == ("0.800", "100.0%")
        assert tiles["Abstained"] == "66.7%"
        assert text(page, ".rounds tbody").split().count("abstained") == 2
        client.delete("/models/abstaining").raise_for_status()


def test_a_model_shows_its_shadows_and_changes(opened: Visit, site: Site) -> None:
    with site.client() as client:
        rules = {"floor": {"b": 0.3}, "groups": {"all": ["a", "b"]}, "cap": {"a": 0.7}}
        client.post("/models", json={"name": "shadowed", "labels": ["a", "b"], "rules": rules}).raise_for_status()
        client.put("/models/shadowed/shadows/rival", json={"learner": "squarecb"}).raise_for_status()
        for changed in ({"add": ["<b>c"]}, {"retire": ["<b>c"]}):
            client.patch("/models/shadowed", json={"labels": changed}, headers={"If-Match": "*"}).raise_for_status()
        made = client.post("/predict/batch", json={"model": "shadowed", "contexts": [{}] * 200}).json()["predictions"]
        given = [{"prediction_id": p["prediction_id"], "correct": p["label"] == "a"} for p in made]
        client.post("/feedback/batch", json={"feedback": given}).raise_for_status()
        wait_until(lambda: client.get("/models/shadowed/shadows/rival").json()["lag"] == 0)
        served = client.get("/models/shadowed/shadows/rival").json()["comparison"]["served"]
        page = opened.open("models/shadowed", ".shadows table")
        *words, shown = text(page, ".shadows tbody tr").split()[:5]
        assert (words, is_percent(shown, served)) == (["rival", "squarecb", "200", "0"], True)
        assert "Undecided" in text(page, ".shadows") or "Better" in text(page, ".shadows")
        shares = {row[0]: row[1:] for row in map(str.split, page.locator("table.rules tbody tr").all_inner_texts())}
        assert {rule: cells[0] for rule, cells in shares.items()} == {"floor.b": "30.0%", "cap.a": "70.0%"}
        shown_shares = [float(cells[1].rstrip("%")) for cells in shares.values()]
        assert sum(shown_shares) == pytest.approx(100.0, abs=0.2)
        assert page.get_attribute("#live", "aria-live") == "polite"
        changes = text(page, ".changes tbody")
        assert "1 labels added <b>c" in changes
        assert "2 labels retired <b>c" in changes
        page.wait_for_selector("table.labels tr:has-text('<b>c') .tag:text('retired')")
        page.evaluate(AXE)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        assert [each["id"] for each in found if each["impact"] in SERIOUS] == []
        page.goto(f"{site.url}/#/{MODEL}")
        page.wait_for_selector(f"h1:text('{LEARNT}')")
        assert not page.locator(".shadows, .changes").first.is_visible()
        client.delete("/models/shadowed").raise_for_status()
