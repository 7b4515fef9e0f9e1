"""The layouts of records, as Lua declarations for the store's scripts."""

from service.store.records import layout


def lua_prelude() -> str:
    """Return the Lua declarations that precede each script that reads or writes records."""
    lines = ["-- Rendered by service/store/records/lua_prelude.py: formats, sizes without answers, 1-based positions."]
    lines.append(f"local VERSION, KEY_BYTES = {layout.VERSION}, {layout.KEY_BYTES}")
    lines += [f"local {kind} = {getattr(layout, kind)}" for kind in ("FEEDBACK", "EXPIRED", "PENDING", "INACTIVE")]
    for name in ("HEAD", "PREDICTION", "CHECK", "OPEN_COUNT", "OUTCOME", "ROUND"):
        lines += getattr(layout, name).lua(name)
    return "\n".join([*lines, ""])
