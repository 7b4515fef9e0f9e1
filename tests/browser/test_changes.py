"""The laws of changes: the page sends the request that it shows, the API has the change, and the page shows it."""

import ast
import json
import re
import unicodedata
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from service.schemas.models import Policies
from tests.browser.site import Site
from tests.browser.visits import Visit, command_of, percent
from tests.servers import wait_until

POLICIES = set(Policies.model_fields)


@pytest.fixture
def review(visit: Visit) -> "Review":
    return Review(visit)


class Review:
    """Fills forms of the settings and applies what they ask."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit

    def __call__(self, form: Locator, button: str = "Review the change") -> None:
        form.get_by_role("button", name=button, exact=True).click()
        self._visit.confirm("Apply")


def test_labels_are_added_and_retired(visit: Visit, site: Site, review: Review) -> None:
    name = site.create("changing-labels")
    visit.load(f"models/{name}/settings")
    form = visit.form("Labels")
    form.get_by_label("Add").fill("c\nd 'quoted'")
    review(form)
    assert site.ask(f"/models/{name}")["labels"] == ["a", "b", "c", "d 'quoted'"]
    expect(form).to_contain_text("4 labels in use")
    expect(form.get_by_label("Add")).to_have_value("")
    form.get_by_label("d 'quoted'").check()
    form.get_by_label("a", exact=True).check()
    review(form)
    assert site.ask(f"/models/{name}")["retired_labels"] == ["a", "d 'quoted'"]
    expect(form).to_contain_text("2 labels in use, 2 retired")


def test_the_ticked_label_is_retired_whatever_it_contains(visit: Visit, site: Site, review: Review) -> None:
    labels = ["a", "a ", "x, y", "x", "<b>c"]
    name = site.create("odd-labels", labels)
    visit.load(f"models/{name}/settings")
    form = visit.form("Labels")
    form.get_by_role("checkbox").nth(1).check()
    expect(form.get_by_role("checkbox").nth(0)).not_to_be_checked()
    review(form)
    assert site.ask(f"/models/{name}")["retired_labels"] == ["a "]


def test_what_a_form_shows_is_kept_when_another_part_of_it_changes(visit: Visit, site: Site, review: Review) -> None:
    """Groups, costs and values with any characters survive a change of their neighbours."""
    name = site.create("kept", ["x, y", "x", "__proto__", "a = b"])
    rules = {"floor": {}, "cap": {"g:1": 0.9, "a = b": 2 / 3}, "floor_each": 0.0, "groups": {"g:1": ["x, y", "x"]}}
    values = {"__proto__": "u = v", "a = b": True}
    costs = {"__proto__": 0.5, "a = b": 1.0}
    site.patch(name, {"rules": rules, "values": values, "costs": costs})
    for title, label in (
        ("Rules", "Every answer"),
        ("Feature flag", "Seconds"),
        ("Costs and budget", "Weight of costs"),
    ):
        visit.load(f"models/{name}/settings")
        visit.form(title).get_by_label(label).fill("2")
        review(visit.form(title))
    model = site.ask(f"/models/{name}")
    assert model["rules"] == rules | {"floor_each": 0.02}
    assert (model["values"], model["costs"]) == (values, costs)


def test_rules_are_changed(visit: Visit, site: Site, review: Review) -> None:
    name = site.create("changing-rules", ["red", "blue", "green"])
    page = visit.load(f"models/{name}/settings")
    form = visit.form("Rules")
    form.get_by_role("button", name="Add a group of labels").click()
    form.get_by_label("Name of the group").fill("sale")
    form.get_by_label("Its labels").fill("red\nblue")
    for number, (subject, kind, share) in enumerate([("green", "floor", "12.5"), ("sale", "cap", "70")], 1):
        form.get_by_role("button", name="Add a rule").click()
        row = form.get_by_role("group", name=f"Rule {number}")
        row.get_by_label("Label or group").fill(subject)
        row.get_by_label("Kind").select_option(kind)
        row.get_by_label("Percent").fill(share)
    form.get_by_label("Every answer, at least (%)").fill("5")
    review(form)
    rules = site.ask(f"/models/{name}")["rules"]
    assert (rules["floor"], rules["cap"], rules["floor_each"]) == ({"green": 0.125}, {"sale": 0.7}, 0.05)
    assert rules["groups"] == {"sale": ["red", "blue"]}
    expect(form.get_by_role("button", name="Undo entries")).to_have_count(0)
    for _ in range(3):
        form.get_by_role("button", name="Remove").first.click()
    form.get_by_label("Every answer, at least (%)").fill("")
    review(form)
    assert site.ask(f"/models/{name}")["rules"] is None
    visit.go(f"models/{name}/history", name)
    expect(page.locator(".timeline li")).to_have_count(2)


CHANGES: list[tuple[str, dict[str, str], dict[str, object]]] = [
    (
        "Costs and budget",
        {"Costs of labels": '{"a":0.5,"b":2}', "Weight of costs": "0.25"},
        {"costs": {"a": 0.5, "b": 2.0}, "cost_weight": 0.25},
    ),
    (
        "Holdout",
        {"Share of the requests (%)": "7.5", "Answered by": "uniform"},
        {"holdout": {"fraction": 0.075, "policy": "uniform"}},
    ),
    (
        "Holdout",
        {"Answered by": "label", "The label": "b"},
        {"holdout": {"fraction": 0.075, "policy": {"label": "b"}}},
    ),
    ("Feedback", {"Feedback after the window": "accept"}, {"late_feedback": "accept"}),
    (
        "Feedback",
        {
            "Rewards are": "clicks",
            "A prediction without feedback becomes": "incorrect",
            "Window in seconds": "600",
            "Feedback counts": "on_arrival",
            "Feedback after the window": "reject",
        },
        {
            "reward": "clicks",
            "on_expiry": "incorrect",
            "window_seconds": 600.0,
            "learn": "on_arrival",
            "late_feedback": "reject",
        },
    ),
    ("Feedback", {"Feedback counts": "at_window_close"}, {"learn": "at_window_close"}),
    ("Costs and budget", {"Budget": "1.25", "Weight of costs": "0"}, {"budget": {"cost": 1.25}, "cost_weight": 0.0}),
    (
        "Log and freshness",
        {
            "Latest rounds to keep": "5000",
            "Longest time to keep a round": "3600",
            "Predictions may miss the last seconds": "1",
        },
        {"retain_rounds": 5000, "retain_seconds": 3600.0, "freshness": {"max_lag_seconds": 1.0}},
    ),
]
"""Forms, what is entered in them by label, and the policies that the model then has."""


def test_policies_are_changed(visit: Visit, site: Site, review: Review) -> None:
    """Costs, the budget, the holdout, feedback, and the log each have a form, and one change leaves the others."""
    name = site.create("changing-policies")
    visit.load(f"models/{name}/settings")
    before = site.ask(f"/models/{name}")
    unchanged = set(POLICIES)
    for title, values, expected in CHANGES:
        form = visit.form(title)
        for label, value in values.items():
            enter(form.get_by_label(label), value)
        review(form)
        after = site.ask(f"/models/{name}")
        assert {key: after[key] for key in expected} == expected
        unchanged -= expected.keys()
        assert {key: after[key] for key in unchanged} == {key: before[key] for key in unchanged}
        expect(form.get_by_role("button", name="Undo entries")).to_have_count(0)
        for label, value in values.items():
            expect(form.get_by_label(label)).to_have_value(value)


def enter(field: Locator, value: str) -> None:
    if field.evaluate("field => field.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)


def test_a_model_is_frozen_and_goes_on(visit: Visit, site: Site) -> None:
    name = site.create("freezing")
    page = visit.load(f"models/{name}/manage")
    for button, mode in (("Freeze", "frozen"), ("Answer and learn", "online"), ("Log only", "logging")):
        page.get_by_role("button", name=button, exact=True).click()
        visit.confirm(button)
        assert site.ask(f"/models/{name}")["mode"] == mode
        expect(page.get_by_role("listitem").filter(has_text=button)).to_contain_text("now")
        expect(page.locator("div.verdict .tag")).to_have_text([] if mode == "online" else [mode])


def test_snapshots_are_taken_returned_to_and_deleted(visit: Visit, site: Site) -> None:
    name = site.create("returning")
    site.teach(name, 20, {"a": 1.0, "b": 0.0})
    page = visit.load(f"models/{name}/history")
    for snapshot, note in (("before", "it's safe"), ("spare", "")):
        page.get_by_label("New snapshot").fill(snapshot)
        page.get_by_label("Note").fill(note)
        page.get_by_role("button", name="Take").click()
        visit.confirm("Take")
        expect(page.locator("table.snapshots tbody").get_by_role("rowheader", name=snapshot)).to_be_visible()
    taken = {one["id"]: one for one in site.ask(f"/models/{name}/snapshots")["snapshots"]}
    assert (taken["before"]["note"], taken["before"]["rounds"]) == ("it's safe", 20)
    expect(page.locator("table.snapshots")).to_contain_text("it's safe")
    site.teach(name, 30, {"a": 1.0, "b": 0.0})
    page.get_by_role("button", name="Roll back to before").click()
    visit.confirm("Roll back")
    (change,) = site.ask(f"/models/{name}/changes")["changes"]
    assert (change["kind"], change["snapshot"]) == ("rollback", "before")
    expect(page.locator(".timeline")).to_contain_text(re.compile("rollback.*before", re.IGNORECASE))
    page.get_by_role("button", name="Delete spare").click()
    visit.confirm("Delete")
    assert [one["id"] for one in site.ask(f"/models/{name}/snapshots")["snapshots"]] == ["before"]
    expect(page.get_by_role("button", name="Delete spare")).to_have_count(0)
    page.get_by_role("button", name="Delete before").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    refusal = site.api.delete(f"/models/{name}/snapshots/before").json()["detail"]
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text(refusal)


def test_shadows_are_added_compared_promoted_and_deleted(visit: Visit, site: Site) -> None:
    name = site.create("shadowed")
    page = visit.load(f"models/{name}/shadows")
    form = visit.form("Add a shadow")
    for shadow, settings in (("rival", '{"gap_scale": 3}'), ("second", "")):
        form.get_by_label("Name").fill(shadow)
        form.get_by_label("Learner").select_option("squarecb")
        form.get_by_label("Hyperparameters").fill(settings)
        form.get_by_role("button", name="Review").click()
        visit.confirm("Add")
        expect(page.locator("table.shadows")).to_contain_text(shadow)
    assert site.ask(f"/models/{name}/shadows/rival")["learner"]["algorithm"] == "squarecb"
    site.teach(name, 200, {"a": 1.0, "b": 0.2})
    wait_until(lambda: site.ask(f"/models/{name}/shadows/rival")["compared_rounds"] == 200)
    visit.go(f"models/{name}", name)
    visit.go(f"models/{name}/shadows", name)
    row = page.locator("table.shadows tbody tr").filter(has_text="rival")
    expect(row.locator("td").nth(5)).to_have_text("200")
    comparison = site.ask(f"/models/{name}/shadows/rival")["comparison"]
    assert comparison["verdict"] == row.locator(".pill").inner_text().lower()
    assert row.locator("td").nth(3).inner_text() in percent(comparison["served"])
    page.get_by_role("button", name="Promote rival").click()
    visit.confirm("Promote")
    assert site.ask(f"/models/{name}")["learner"]["algorithm"] == "squarecb"
    page.get_by_role("button", name="Delete second").click()
    visit.confirm("Delete")
    assert "second" not in [shadow["name"] for shadow in site.ask(f"/models/{name}/shadows")["shadows"]]
    expect(page.get_by_role("button", name="Delete second")).to_have_count(0)


def test_a_model_is_cloned_exported_and_imported(visit: Visit, site: Site, tmp_path: Path) -> None:
    """The exported file is what POST /models/{name}/import takes; the clone begins with what was learned."""
    name = site.create("copied")
    site.teach(name, 40, {"a": 1.0, "b": 0.0})
    page = visit.load(f"models/{name}/manage")
    with page.expect_download() as caught:
        page.get_by_role("button", name="Export").click()
    assert caught.value.suggested_filename == f"{name}.safetensors"
    caught.value.save_as(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    headers = {"Content-Type": "application/octet-stream"}
    site.api.post("/models/imported/import", content=content, headers=headers).raise_for_status()
    page.get_by_label("Clone as").fill("cloned")
    page.get_by_role("button", name="Clone").click()
    visit.confirm("Clone")
    expect(page.locator("h1")).to_have_text("cloned")
    visit.go("new", "New model")
    form = visit.form("Or import a model")
    form.get_by_label("Name of the new model").fill("imported-here")
    form.get_by_label("File of an export").set_input_files({"name": "x", "mimeType": "", "buffer": b"no model"})
    form.get_by_role("button", name="Import").click()
    refusal = site.api.post("/models/imported-here/import", content=b"no model", headers=headers).json()["detail"]
    expect(form.get_by_role("alert")).to_contain_text(refusal)
    form.get_by_label("File of an export").set_input_files(tmp_path / "model")
    form.get_by_role("button", name="Import").click()
    expect(page.locator("h1")).to_have_text("imported-here")
    answers = {
        copy: site.send("/predict", {"model": copy, "include_distribution": True})["distribution"]
        for copy in (name, "imported", "cloned", "imported-here")
    }
    assert list(answers.values()) == [answers[name]] * 4


def test_a_model_is_reset_and_deleted_after_its_name_is_typed(visit: Visit, site: Site) -> None:
    name = site.create("ending")
    site.teach(name, 20, {"a": 1.0, "b": 0.0})
    page = visit.load(f"models/{name}/manage")
    for word in ("Reset", "Delete"):
        page.locator("#m-end").get_by_role("button", name=word).click()
        dialog = page.get_by_role("dialog")
        button = dialog.get_by_role("button", name=word)
        expect(button).to_be_disabled()
        dialog.get_by_label(f"Type {name} to confirm").fill(name[:-1])
        dialog.get_by_label(f"Type {name} to confirm").press("Enter")
        expect(button).to_be_disabled()
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
    assert site.ask(f"/models/{name}")["changes"]["count"] == 0
    for word in ("Reset", "Delete"):
        page.locator("#m-end").get_by_role("button", name=word).click()
        page.get_by_role("dialog").get_by_label(f"Type {name} to confirm").fill(name)
        visit.confirm(word)
        if word == "Reset":
            assert [change["kind"] for change in site.ask(f"/models/{name}/changes")["changes"]] == ["reset"]
            assert site.ask(f"/models/{name}")["rounds_seen"] == 20
    expect(page.locator("h1")).to_have_text("Models")
    assert site.api.get(f"/models/{name}").status_code == 404


HIDDEN = "\x7f\x9b\u200e\u202e\u2066\u2028\ufeff\U000e0041"  # obeyed by terminals, or shown as nothing


def hidden_in(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"}} - {"\n"}


def test_code_to_paste_has_no_hidden_characters(visit: Visit, site: Site) -> None:
    """A command and the code of the first request escape what a terminal obeys or hides, and mean the same."""
    plan = {"plan": {"type": "string", "values": [HIDDEN], "required": True}}
    name = site.create("hidden", ["a", "b", HIDDEN], features={"kind": "named", "fields": plan})
    page = visit.load(f"models/{name}")
    code = {}
    for language in ("curl", "Python", "TypeScript"):
        page.get_by_role("button", name=language, exact=True).click()
        code[language] = page.get_by_role("region", name=f"The first request in {language}").text_content() or ""
        assert hidden_in(code[language]) == set()
    context = {"plan": HIDDEN}
    assert command_of(code["curl"].partition("\n\n#")[0]).body["context"] == context
    (shown,) = re.findall(r'predict\("hidden", (.*)\)$', code["Python"], re.MULTILINE)
    assert json.loads(json.dumps(ast.literal_eval(shown))) == context
    visit.go(f"models/{name}/settings", name)
    form = visit.form("Labels")
    form.get_by_role("checkbox").nth(2).check()
    form.get_by_role("button", name="Review the change").click()
    assert hidden_in(page.get_by_role("dialog").locator("pre").text_content() or "") == set()
    visit.confirm("Apply")
    assert site.ask(f"/models/{name}")["retired_labels"] == [HIDDEN]


def shadow_of(site: Site, name: str) -> str:
    return str(site.ask(f"/models/{name}/shadows/rival")["learner"]["algorithm"])


def test_a_shadow_that_somebody_replaced_is_shown_before_it_is_promoted(visit: Visit, site: Site) -> None:
    """What is sent is about the shadow that the dialog shows; a name that exists is replaced only after a question."""
    name = site.create("replaced")
    path = f"/models/{name}/shadows/rival"
    site.api.put(path, json={"learner": "squarecb"}).raise_for_status()
    page = visit.load(f"models/{name}/shadows")
    dialog, form = page.get_by_role("dialog"), visit.form("Add a shadow")
    for button, word in (("Promote rival", "Promote"), ("Delete rival", "Delete")):
        page.get_by_role("button", name=button).click()
        site.api.put(path, json={"learner": "fastcb" if word == "Promote" else "squarecb"}).raise_for_status()
        dialog.get_by_role("button", name=word).click()
        expect(dialog).to_contain_text("Somebody has changed this shadow. Now “rival”")
        expect(dialog).to_contain_text(f'"algorithm":"{shadow_of(site, name)}"')
        dialog.get_by_role("button", name="Cancel").click()
    form.get_by_label("Name").fill("rival")
    form.get_by_label("Learner").select_option("fastcb")
    form.get_by_role("button", name="Review").click()
    expect(dialog).to_contain_text("There is a shadow with this name")
    site.api.delete(path).raise_for_status()
    dialog.get_by_role("button", name="Replace").click()
    expect(dialog).to_contain_text("Somebody has changed this shadow. It is gone.")
    site.api.put(path, json={"learner": "squarecb"}).raise_for_status()
    dialog.get_by_role("button", name="Add").click()
    expect(dialog).to_contain_text("There is a shadow with this name")
    assert shadow_of(site, name) == "squarecb"
    visit.confirm("Replace")
    assert shadow_of(site, name) == "fastcb"
    page.get_by_role("button", name="Promote rival").click()
    site.api.delete(path).raise_for_status()
    dialog.get_by_role("button", name="Promote").click()
    dialog.get_by_role("button", name="Promote").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the model has no shadow")
