"""The laws of a model's page: what it shows is what the API says, in the words of the model's reward."""

import json
import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import LEARNT, MARKUP, RICH, ROUNDS
from tests.browser.site import Site
from tests.browser.visits import Visit, percent, text


def tiles(page: Page) -> dict[str, str]:
    """Return the numbers of a model by their names."""
    expect(page.locator(".tiles")).to_be_visible()
    names, values = page.locator(".tile dt"), page.locator(".tile .value")
    return dict(zip(names.all_inner_texts(), values.all_inner_texts(), strict=True))


def pair(section: Locator, name: str) -> Locator:
    return section.locator(".pairs > div").filter(has_text=re.compile(rf"^\s*{name}")).locator("dd")


def test_a_model_agrees_with_its_log(visit: Visit, site: Site) -> None:
    log = [json.loads(line) for line in site.api.get(f"/models/{LEARNT}/rounds?limit=10000").text.splitlines()]
    statistics = site.ask(f"/models/{LEARNT}/statistics")
    page = visit.load(f"models/{LEARNT}")
    shown = tiles(page)
    assert len(log) == ROUNDS
    assert shown["Rounds"] == f"{ROUNDS:,}"
    assert shown["Accuracy, all rounds"] in percent(sum(line["correct"] for line in log) / ROUNDS)
    rows = page.locator("table.labels tbody tr")
    for label in ("sports", "politics", "science"):
        row = rows.filter(has=page.get_by_role("rowheader", name=label))
        assert row.locator("td").first.inner_text() == f"{sum(line['label'] == label for line in log):,}"
    tagged = rows.filter(has=page.locator(".tag"))
    assert [text(tagged.locator(part)) for part in (".name", ".tag")] == [statistics["best_label"], "best alone"]
    verdict = text(page.locator("div.verdict"))
    assert verdict.lower().startswith(statistics["verdict"]["verdict"].replace("_", " "))
    assert statistics["verdict"]["reason"] in verdict
    assert text(page.locator(".headline-number")) in percent(statistics["latest"]["reward"]["mean"])
    expect(page.locator("table.rounds tbody tr")).to_have_count(15)
    page.locator("table.rounds tbody a").first.click()
    expect(page.locator(".hint code").first).to_have_text(log[-1]["prediction_id"])


def test_the_curve_has_dates_and_the_bound_waits_behind_its_question(visit: Visit, site: Site) -> None:
    statistics = site.ask(f"/models/{LEARNT}/statistics")
    page = visit.load(f"models/{LEARNT}")
    expect(page.locator("#s-curve canvas")).to_be_visible()
    page.get_by_text("Table of the curve").click()
    expect(page.locator("table.curve tbody th")).to_have_text(
        [point["last_at"][:19].replace("T", " ") for point in statistics["curve"]["points"]]
    )
    guarantee = page.get_by_text(statistics["bound"]["guarantee"], exact=True)
    expect(guarantee).to_have_count(0)
    page.get_by_text("What is guaranteed").click()
    expect(guarantee).to_be_visible()
    expect(page.get_by_text(statistics["bound"]["note"], exact=True)).to_be_visible()


def test_the_gain_is_the_sentence_of_the_api(visit: Visit, site: Site) -> None:
    """A model of clicks with a holdout begins with what it gains, and speaks of clicks."""
    statistics = site.ask(f"/models/{RICH}/statistics")
    uplift = statistics["uplift"]
    page = visit.load(f"models/{RICH}")
    gain = page.get_by_role("region", name="What the model gains")
    expect(gain.locator(".sentence")).to_have_text(uplift["sentence"])
    assert text(pair(gain, "Served")).split()[0] in percent(uplift["served"]["mean"])
    assert text(pair(gain, "Holdout")).split()[0] in percent(uplift["holdout"]["mean"])
    assert text(pair(gain, "Sample ratio")).split()[0] in percent(uplift["sample_ratio"]["observed"])
    shown = tiles(page)
    assert shown["Click rate, all rounds"] in percent(statistics["reward"]["mean"])
    expect(page.locator("table.rounds")).to_be_visible()
    rewards = set(page.locator("table.rounds tbody td:nth-child(4)").all_inner_texts())
    assert set() < rewards <= {"click", "no click"}


def test_every_term_explains_itself(visit: Visit) -> None:
    """Each underlined word has a sentence: while it has the focus or the pointer, until Escape."""
    page = visit.load(f"models/{LEARNT}")
    expect(page.locator("table.rounds")).to_be_visible()
    tip, words = page.get_by_role("tooltip"), page.locator(".term:visible")
    sentences = page.evaluate(
        """async () => {
          const found = [];
          for (const word of document.querySelectorAll(".term")) {
            word.focus();
            await new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame));
            const tip = document.getElementById(word.getAttribute("aria-describedby"));
            found.push([word.textContent, tip?.textContent, document.querySelectorAll("[role=tooltip]").length]);
          }
          return found;
        }"""
    )
    assert len(sentences) == words.count() >= 20
    assert [found for found in sentences if not (found[1] or "").endswith(".") or found[2] != 1] == []
    word = page.locator(".tile .term").first
    word.focus()
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    word.hover()
    expect(tip).to_be_visible()
    page.mouse.move(0, 0)
    expect(tip).to_have_count(0)


def test_a_trial_becomes_a_round_and_abstentions_are_shown_apart(visit: Visit, site: Site) -> None:
    """The form judges an abstention by its true label; the tiles have the rate, and the accuracy of other rounds."""
    dense = {"kind": "dense", "size": 2}
    name = site.create("abstaining", ["no", "yes", "abstain"], learner="adahedge", features=dense)
    for context in ([1.0, 1.0], [0.0, 0.0]):
        made = site.send("/predict", {"model": name, "context": context})
        site.send("/feedback", {"prediction_id": made["prediction_id"], "true_label": "yes"})
    page = visit.load(f"models/{name}/try")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator(".drawn")).to_contain_text("drawn with probability")
    page.select_option("#truth", "yes")
    page.get_by_role("button", name="Send true label").click()
    expect(page.locator(".done")).to_have_text("Feedback recorded, an abstention: round 3.")
    site.wait_for_fold(name)
    visit.go(f"models/{name}", name)
    expect(page.locator(".tile", has_text="Abstained").locator(".value")).to_have_text("66.7%")
    shown = tiles(page)
    assert (shown["Mean reward, all rounds"], shown["Accuracy, rounds answered"]) == ("0.800", "100.0%")
    expect(page.locator("table.rounds tbody")).to_contain_text("abstained")
    assert text(page.locator("table.rounds tbody")).split().count("abstained") == 2


def test_names_with_markup_are_shown_as_text(visit: Visit) -> None:
    """Labels, groups and notes with markup are text everywhere; rules show their shares."""
    page = visit.load(f"models/{RICH}")
    expect(page.locator("table.labels")).to_contain_text(MARKUP)
    retired = page.locator("table.labels th", has=page.locator(".tag", has_text="retired"))
    expect(retired.locator(".name")).to_have_text("c")
    expect(page.locator("table.rules")).to_contain_text(f"floor.{MARKUP}")
    expect(page.locator("table.rounds")).to_be_visible()
    for tab, where in (("history", ".snapshots"), ("settings", ".boxes"), ("evaluation", ".policies")):
        visit.go(f"models/{RICH}/{tab}", RICH)
        expect(page.locator(where).first).to_contain_text(MARKUP)
    visit.go(f"models/{RICH}/try", RICH)
    page.get_by_role("button", name="Predict").click()
    expect(page.locator(".distribution")).to_contain_text(MARKUP)
    assert page.locator("b").count() == 0
