"""Every key, spelled once. The braces put all keys of a model into one slot of a cluster."""

MODELS = "wager:models"
"""Sorted set of the names of all models, and perhaps of some that are gone."""

API_KEYS = "wager:api-keys"
"""Hash: the record of each API key (`service.access.keys`) under its id."""

DAMAGED = "wager:damaged"
"""Sorted set of the names of models with recorded damage, and perhaps of some that are gone."""

RATE_LIMITS = "wager:limits"
"""What the keys of rate limits begin with; the library `limits` names the rest."""


def probe(tag: str) -> str:
    """String that is written to see whether writes are taken; its tag, where it has one, chooses the slot."""
    return f"wager:{{{tag}}}:probe" if tag else "wager:probe"


def model(name: str) -> str:
    """Hash: incarnation, definition, created_at, and the counters rounds, predictions, correct, refused:<status>.

    Where the model was changed, also `changes`, how often, which no version does yet. Where rounds are damaged, also
    `damaged`, how many, and `damage`, the version of the record of them.
    """
    return f"wager:{{{name}}}:model"


def log(name: str, incarnation: str) -> str:
    """Stream of rounds and changes; the id of an entry is <rounds>-<changes>, how many there are of each with it.

    Fields: `t` its type, `v` the version of its layout, and of rounds, `p` their block and `d` their bytes. Releases up
    to 0.1.0 wrote rounds with `p` and `r` alone.
    """
    return f"wager:{{{name}}}:{incarnation}:log"


def snapshot(name: str, incarnation: str) -> str:
    """Hash: the parts of the state, numbered, and beside them version, rounds, changes, tally, at, check.

    `tally` are the statistics, `at` is in seconds since the epoch, by the store's clock; what `check` covers is said in
    `service.store.redis.snapshot_parts`. Where the snapshot cannot be read, also `damaged`.
    """
    return f"wager:{{{name}}}:{incarnation}:snapshot"


def coming_snapshot(name: str, incarnation: str, digest: str) -> str:
    """Hash: the parts of a snapshot that is being written."""
    return f"wager:{{{name}}}:{incarnation}:snapshot:{digest}"


def statistics(name: str, incarnation: str) -> str:
    """Hash: version, rounds, tally (the statistics), and s:<slot>, predictions made by the end of a slot of time."""
    return f"wager:{{{name}}}:{incarnation}:tally"


def damage(name: str, incarnation: str) -> str:
    """Hash: why `<first>-<last>`, a range of rounds, or `snapshot-<rounds>` cannot be read; JSON."""
    return f"wager:{{{name}}}:{incarnation}:damage"


def block(name: str, incarnation: str, block_id: str) -> str:
    """String: the record of one or more predictions (`service.store.records.records`)."""
    return f"wager:{{{name}}}:{incarnation}:p:{block_id}"


def lasting(name: str, incarnation: str) -> list[str]:
    """Every key of one life of a model but those of its predictions, which end by themselves."""
    parts = (log, snapshot, statistics, damage)
    return [model(name), *(part(name, incarnation) for part in parts)]
