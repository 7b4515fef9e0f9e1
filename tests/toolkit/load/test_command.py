"""The laws of the options of `wager load`."""

import dataclasses
import re
from typing import get_type_hints

from toolkit.load.command import load
from toolkit.load.plan import Plan


def test_the_help_names_the_defaults_of_the_plan() -> None:
    """The help of each option ends with the default of its field, which the command does not import."""
    hints = get_type_hints(load, include_extras=True)
    texts = {name: hints[name].__metadata__[0].help for name in hints if name != "return"}
    named = {name: found[1] for name, text in texts.items() if (found := re.search(r" Default: (\S*)\.$", text))}
    defaults = {field.name: field.default for field in dataclasses.fields(Plan)}
    shown = {name: value for name, value in defaults.items() if isinstance(value, int | float | str)}
    assert named == {
        name: f"{value:g}" if isinstance(value, int | float) else value
        for name, value in shown.items()
        if value is not False
    }
