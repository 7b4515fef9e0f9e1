"""The laws of New model: the keyboard suffices, the answers become the definition, and the code that follows works."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.site import Site
from tests.browser.visits import Visit, command_of
from tests.client.conftest import TYPESCRIPT

ROOT = Path(__file__).parents[2]
NAMED: dict[str, Any] = {"kind": "named"}
UNIFORM = {"fraction": 0.1, "policy": "uniform"}


def tab_to(element: Locator) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(60):
        element.page.keyboard.press("Tab")
        if element.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError("Tab does not reach it")


def choose(page: Page, name: str, steps: int) -> None:
    """Go to a group of radio buttons, and from the chosen one as many steps down."""
    tab_to(page.locator(f"input[name={name}]:checked"))
    for _ in range(steps):
        page.keyboard.press("ArrowDown")


def fill(page: Page, name: str, *, items: int, knowledge: int, reward: int) -> None:
    """Answer the questions with the keyboard only: 10 minutes, and a holdout of 10 %."""
    tab_to(page.get_by_label("What is it called?"))
    page.keyboard.type(name)
    choose(page, "choice", items)
    if not items:
        tab_to(page.get_by_label("The options"))
        page.keyboard.type("only")
    choose(page, "knowledge", knowledge)
    choose(page, "reward", reward)
    tab_to(page.get_by_label("How many", exact=True))
    page.keyboard.press("Control+A")
    page.keyboard.type("10")
    tab_to(page.get_by_label("Unit"))
    page.keyboard.type("m")
    tab_to(page.get_by_label("Keep a holdout"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")


def create(visit: Visit) -> Any:
    """Press Enter on the button; return what was sent, which is what the page has shown."""
    page = visit.page
    tab_to(page.get_by_role("button", name="Create model"))
    shown = command_of(page.locator("details pre").text_content() or "")
    with page.expect_response(f"{visit.site.url}/models") as caught:
        page.keyboard.press("Enter")
    assert (shown.method, shown.url) == ("POST", f"{visit.site.url}/models")
    assert shown.body == caught.value.request.post_data_json
    return shown.body


def test_a_refusal_stands_at_its_field_and_can_be_mended(visit: Visit, site: Site) -> None:
    page = visit.load("new")
    fill(page, "refused at first", items=0, knowledge=0, reward=0)
    expect(page.locator(".notes")).to_contain_text("after 10 minutes is forgotten")
    page.get_by_label("How many", exact=True).fill("1.5")
    expect(page.locator(".notes")).to_contain_text("after 1.5 minutes is forgotten")
    create(visit)
    field = page.get_by_label("What is it called?")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("mended")
    refused = create(visit)
    labels = page.get_by_label("The options")
    expect(labels).to_have_attribute("aria-invalid", "true")
    refusal = site.api.post("/models", json=refused).json()["detail"]
    expect(page.locator("#labels-error")).to_have_text(refusal)
    assert "labels-error" in (labels.get_attribute("aria-describedby") or "")
    expect(labels).to_have_value("only")
    labels.press("Control+End")
    page.keyboard.type("\nother")
    create(visit)
    expect(page.locator("h1")).to_have_text("mended")
    assert site.ask("/models/mended")["labels"] == ["only", "other"]


@pytest.mark.parametrize(
    ("reward", "items", "knowledge", "expected"),
    [
        ("accuracy", 0, 0, {"on_expiry": "drop", "learn": "on_arrival"}),
        ("clicks", 0, 1, {"on_expiry": "incorrect", "learn": "at_window_close"}),
        ("value", 1, 0, {"on_expiry": "drop", "learn": "on_arrival"}),
    ],
)
def test_a_model_is_created_and_its_code_works(
    visit: Visit,
    site: Site,
    reward: str,
    items: int,
    knowledge: int,
    expected: dict[str, Any],
) -> None:
    """Each reward sets its policies; the code that the page shows fills it without a reload."""
    name = f"made-for-{reward}"
    page = visit.load("new")
    fill(page, name, items=items, knowledge=knowledge, reward=["accuracy", "clicks", "value"].index(reward))
    if not items:
        page.get_by_label("The options").press("Control+End")
        page.keyboard.type("\nother")
    create(visit)
    expect(page.get_by_role("heading", name="Send the first request")).to_be_visible()
    model = site.ask(f"/models/{name}")
    expected = expected | {"reward": reward, "window_seconds": 600.0, "holdout": UNIFORM}
    assert {key: model[key] for key in expected} == expected
    assert model["features"]["kind"] == ("none" if knowledge else "named")
    assert model["labels"] == ([] if items else ["only", "other"])
    assert bool(model["actions"]) == bool(items)
    run_curl(code_of(page, "curl"), site)
    expect(page.locator(".tiles")).to_be_visible()
    visit.go(f"models/{name}/try", name)
    run([sys.executable, "-c", code_of(page, "Python")], site)
    visit.go(f"models/{name}", name)
    model = site.ask(f"/models/{name}")
    assert model["rounds_seen"] == (0 if reward == "clicks" else 2)
    expect(page.locator(".tiles")).to_contain_text("of 2 predictions")


@pytest.mark.parametrize("items", [False, True], ids=["labels", "actions"])
def test_the_code_in_typescript_works(visit: Visit, site: Site, node: str, items: bool) -> None:
    subject = {"actions": {"features": NAMED}, "reward": "value"} if items else {"labels": ["a", "b"]}
    name = f"typescript-{items}".lower()
    site.send("/models", {"name": name, "features": NAMED} | subject)
    page = visit.load(f"models/{name}")
    run([node, "--input-type=module", "--eval", code_of(page, "TypeScript")], site)
    expect(page.locator(".tiles")).to_contain_text("of 1 predictions")


def code_of(page: Page, language: str) -> str:
    """Return the code of the first request, which has no key."""
    page.get_by_role("button", name=language, exact=True).click()
    code = page.get_by_role("region", name=f"The first request in {language}").inner_text()
    assert "wk_" not in code
    return code


def run(command: list[str], site: Site) -> str:
    """Run a program with the key in its environment; return what it prints."""
    environment = os.environ | {"WAGER_API_KEY": site.key, "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}"}
    done = subprocess.run(
        command, cwd=TYPESCRIPT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_curl(code: str, site: Site) -> None:
    """Run the two commands; the second needs the prediction's id."""
    if shutil.which("curl") is None:
        pytest.skip("no curl on this machine")
    ask, _, tell = code.partition("\n\n#")
    id_ = json.loads(run(["bash", "-c", f"{ask} --silent"], site))["prediction_id"]
    command = tell.partition("\n")[2].replace("PREDICTION_ID", id_)
    assert "prediction_id" in json.loads(run(["bash", "-c", f"{command} --silent"], site))


VECTOR: dict[str, Any] = {"type": "vector", "size": 3}
DECLARED: dict[str, dict[str, Any]] = {
    "user.age": {"type": "number", "minimum": 50, "maximum": 99},
    "debt": {"type": "number", "maximum": -1},
    "plan": {"type": "string", "values": ["free", "paid"]},
    "tags": {"type": "strings", "values": ["new"]},
    "isNew": {"type": "boolean"},
    "embedding": VECTOR,
}
FIELDS = {path: field | {"required": True} for path, field in DECLARED.items()}
FEATURES: dict[str, dict[str, Any]] = {
    "open": NAMED,
    "required": NAMED | {"fields": FIELDS},
    "closed": NAMED | {"fields": DECLARED, "closed": True},
    "vector": NAMED | {"fields": {"embedding": VECTOR}, "closed": True},
    "short": NAMED | {"norm": "reject"},
    "short-closed": NAMED | {"fields": DECLARED, "closed": True, "norm": "reject"},
    "dense": {"kind": "dense", "size": 60},
    "sparse": {"kind": "sparse", "size": 5, "norm": "reject"},
}


@pytest.mark.parametrize("of", ["context", "actions"])
def test_the_first_request_fits_the_declared_features(visit: Visit, site: Site, of: str) -> None:
    """Whatever a model declares about its features, it accepts the example that its page shows."""
    visit.load("new")
    for title, features in FEATURES.items():
        labels = {"features": features, "labels": ["a", "b"]}
        actions = {"actions": {"features": {each: features[each] for each in features if each != "norm"}}}
        name = f"{of}-{title}"
        site.send("/models", {"name": name} | (labels if of == "context" else actions))
        code = code_of(visit.go(f"models/{name}", name), "curl").partition("\n\n#")[0]
        answer = site.api.post("/predict", json=command_of(code).body)
        assert answer.status_code == 200, (title, answer.text)
