"""Models with actions and their requests, for tests."""

from typing import Any

NAMED: dict[str, Any] = {"kind": "named"}


def definition(name: str, **fields: Any) -> dict[str, Any]:
    """Return the definition of a model with named features of contexts and actions."""
    return {"name": name, "features": NAMED, "actions": {"features": NAMED}} | fields


def item(id_: str, **features: Any) -> dict[str, Any]:
    """Return an action."""
    return {"id": id_, "features": features}


SHOES = [item("red", colour="red", price=0.5), item("blue", colour="blue", price=0.7), item("green", colour="green")]
