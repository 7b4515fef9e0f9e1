"""The pages of operations against the code: settings, durability, and the hyperparameters that the runbook names."""

import re
from pathlib import Path

import pytest

from service.commands.serve_options import default_of
from service.registry.registry import describe_learners
from service.settings import Settings
from service.store.connections import readiness
from service.store.embedded.server import EmbeddedServer

ROOT = Path(__file__).parents[1]
PAGES = [f"docs/{page}.md" for page in ("reference/settings", "guides/deploying", "guides/runbook")]
SETTINGS, DEPLOYING, RUNBOOK = (ROOT.joinpath(page).read_text() for page in PAGES)
COMPOSE = (ROOT / "docker-compose.yml").read_text()

DURABILITY = {
    "the page of settings": SETTINGS,
    "the guide": DEPLOYING,
    "the runbook": RUNBOOK,
    "docs/explanation/promises.md": (ROOT / "docs/explanation/promises.md").read_text(),
    "docker/valkey.conf": (ROOT / "docker" / "valkey.conf").read_text(),
    "the embedded store": str(EmbeddedServer.__doc__),
    "the setting": str(Settings.model_fields["appendfsync"].description),
    "readyz": readiness._PERSISTENCE["yes", "everysec"],
}
"""Every text that states what `appendfsync everysec` may lose."""

_POWER_LOSS = r"power (?:loss|cut)|loss of power"


def test_the_table_of_settings_is_the_settings() -> None:
    rows = [
        f"| `WAGER_{name.upper()}` | {f'`{default}`' if (default := default_of(field)) else 'unset'} "
        f"| {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    assert re.findall(r"^\| `WAGER_.*$", SETTINGS, re.MULTILINE) == rows


def test_every_variable_is_known() -> None:
    settings = {f"WAGER_{name.upper()}" for name in Settings.model_fields}
    text = SETTINGS + DEPLOYING + RUNBOOK
    assert set(re.findall(r"\bWAGER_[A-Z_]+\b", text)) <= settings | set(re.findall(r"\bWAGER_[A-Z_]+\b", COMPOSE))


@pytest.mark.parametrize("where", DURABILITY)
def test_texts_agree_on_a_power_loss(where: str) -> None:
    """Texts say that `everysec` may lose up to two seconds: Valkey delays a write that long during an fsync."""
    text = " ".join(DURABILITY[where].replace("\n#", "\n").split())
    near = [text[max(0, found.start() - 80) : found.end() + 80] for found in re.finditer(_POWER_LOSS, text)]
    assert any("up to two seconds" in part for part in near)
    assert not [part for part in near if re.search(r"\b(?:last|a|one|some) (?:two )?seconds?\b", part)]


def test_the_runbook_names_hyperparameters_that_exist() -> None:
    fields = {each.algorithm: set(each.hyperparameters["properties"]) for each in describe_learners().learners}
    items = [
        (re.findall(r"`([^`]+)`", learners), set(re.findall(r"`([^`]+)`", advice)))
        for learners, advice in re.findall(r"^- (`[^:]+?): ((?:.|\n )+)", RUNBOOK, re.MULTILINE)
    ]
    assert [learner for learners, _ in items for learner in learners if learner not in fields] == []
    assert [(learner, advice - fields[learner]) for learners, advice in items for learner in learners] == [
        (learner, set()) for learners, _ in items for learner in learners
    ]
    explorers = {name for name, own in fields.items() if own & {"exploration", "least_exploration", "gap_scale"}}
    assert {learner for learners, _ in items for learner in learners} == explorers
