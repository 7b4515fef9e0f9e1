"""The laws of the TypeScript client: its own tests pass on a running service, and it works in a browser."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Page, sync_playwright

from tests.client.conftest import HOST, TYPESCRIPT
from tests.servers import wait_until
from tests.service.wager import Wager

_ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {HOST} 127.0.0.1"]
_PREDICT = """
async ([baseUrl, model]) => {
  const { FeedbackQueue, Wager } = await import("wager-client");
  const wager = new Wager({ baseUrl, timeout: 60_000 });
  await wager.createModel({ name: model, labels: ["a", "b"], features: { kind: "named" } });
  const prediction = await wager.predict(model, { hour: 9 });
  window.predictions = await wager.predictBatch(model, Array(500).fill({ context: {} }));
  window.queue = new FeedbackQueue(wager);
  return (await wager.feedback(prediction, { correct: true })).status;
}
"""
_PUT_AND_LEAVE = """
() => {
  for (const prediction of predictions) queue.put(prediction, { correct: true });
  location.href = "about:blank";
}
"""


def test_the_package_passes_its_tests(running: Wager, node: str) -> None:  # noqa: ARG001
    """The types are those of openapi.json, the sources compile, and all tests of the package pass."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on this machine")
    environment = os.environ | {"WAGER_BASE_URL": running.url, "npm_config_update_notifier": "false"}
    done = subprocess.run(
        [npm, "test"], cwd=TYPESCRIPT, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WAGER_BASE_URL is not set" not in done.stdout


def test_the_program_of_the_readme_learns(running: Wager, node: str) -> None:
    (code,) = re.findall(r"```js\n(.*?)```", (TYPESCRIPT / "README.md").read_text(), re.DOTALL)
    model = "typescript-readme"
    code = code.replace("http://127.0.0.1:8000", running.url).replace("front-page", model)
    command = [node, "--input-type=module", "--eval", code]
    done = subprocess.run(command, cwd=TYPESCRIPT, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    assert done.stdout.split()[0] in ("sports", "politics", "science")
    assert httpx2.get(f"{running.url}/models/{model}", verify=False).json()["rounds_seen"] == 1


@pytest.fixture
def page(origin: str, built: None) -> Iterator[Page]:  # noqa: ARG001
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        page = browser.new_page()
        page.goto(origin)
        yield page
        browser.close()


def test_a_page_predicts_and_loses_no_feedback_when_it_is_left(page: Page, running: Wager) -> None:
    """A page without HTTPS calls the service from another origin. What waits when it is left is recorded."""
    model = "typescript-page"
    assert page.evaluate(_PREDICT, [running.url, model]) == "recorded"
    page.evaluate(_PUT_AND_LEAVE)
    with httpx2.Client(base_url=running.url, timeout=60.0, verify=False) as client:
        wait_until(lambda: client.get(f"/models/{model}").json()["rounds_seen"] == 501, 20.0)
