"""`python -m tests.browser.pictures`: takes the pictures of the dashboard in docs/images, from real traffic.

In these four minutes, the favourite of the visitors changes three times.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
from playwright.sync_api import sync_playwright

from tests.service.wager import serve

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SECONDS = 232  # the last favourite is found, and the last change still in sight
MODELS = (
    ("checkout", ["long", "express"]),
    ("prompts", ["terse", "friendly", "formal"]),
    ("search-ranking", ["a", "b"]),
)
TALL, WIDE = {"width": 1280, "height": 1120}, {"width": 1280, "height": 560}


def take(url: str) -> None:
    """Take the pictures of a service whose demonstration has run."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=TALL)  # type: ignore[arg-type]
        page.goto(f"{url}/#/models/headlines")
        page.wait_for_selector(".chart canvas")
        page.screenshot(path=IMAGES / "dashboard-model.png")
        page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        page.goto(f"{url}/#/?sort=traffic")
        page.wait_for_selector("table.models tbody tr:nth-child(4)")
        page.screenshot(path=IMAGES / "dashboard-models.png")
        browser.close()


def main() -> None:
    """Serve, let the demonstration run, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as wager:
        with httpx2.Client(base_url=wager.url) as client:
            for name, labels in MODELS:
                client.post("/models", json={"name": name, "labels": labels}).raise_for_status()
                made = client.post("/predict/batch", json={"model": name, "contexts": [{}] * 300}).json()["predictions"]
                given = [{"prediction_id": p["prediction_id"], "correct": p["label"] == labels[0]} for p in made]
                client.post("/feedback/batch", json={"feedback": given}).raise_for_status()
        command = [sys.executable, "-m", "service", "demo", "--url", wager.url, "--seconds", str(SECONDS)]
        subprocess.run(command, check=True)
        take(wager.url)


if __name__ == "__main__":
    main()
