"""The laws of the options of `wager load`."""

import dataclasses
import re
from typing import get_type_hints

from service.load.command import load
from service.load.plan import Plan


def test_the_help_shows_the_defaults_of_the_plan() -> None:
    """The help of each option shows the plan's default in brackets.

    The texts repeat the defaults, because the command does not import the plan.
    """
    hints = get_type_hints(load, include_extras=True)
    texts = {name: hints[name].__metadata__[0].help for name in hints if name != "return"}
    named = {name: found[1] for name, text in texts.items() if (found := re.search(r"\[([^]]*)\]\.$", text))}
    defaults = {field.name: field.default for field in dataclasses.fields(Plan)}
    shown = {name: value for name, value in defaults.items() if isinstance(value, int | float | str)}
    assert named == {
        name: f"{value:g}" if isinstance(value, int | float) else value
        for name, value in shown.items()
        if value is not False
    }
