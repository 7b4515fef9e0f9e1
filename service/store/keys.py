"""The names of all keys in the store. Braces assign all keys of a model to one hash slot of a cluster."""

from functools import lru_cache

from service.store.stored_models import ModelKey

MODELS = "wager:models"
"""Sorted set: the names of all models, and possibly of some that are gone."""

FLAGS = "wager:flags"
"""Sorted set: the names of the models with `ofrep.bulk`, and possibly of some others."""

API_KEYS = "wager:api-keys"
"""Hash: the record of each API key (`service.access.keys`), by id."""

TRAFFIC = "wager:traffic"
"""Sorted set: the names of the models with the most traffic (`lua/count_traffic.lua` defines the score)."""

BACKUP = "wager:backup"
"""Sorted set: the member `all`, whose score is when the latest whole backup began, in seconds since the epoch."""

DAMAGED = "wager:damaged"
"""Sorted set: the names of models with recorded damage, and possibly of some that are gone."""

RATE_LIMITS = "wager:limits"
"""Prefix of the keys that count what API keys use. The library `limits` names those of requests."""


def member(key: ModelKey) -> str:
    """Return the member for a model in a list of due models (`service.store.values.Due`)."""
    return f"{key.name}:{key.incarnation}"


def of_member(text: bytes) -> ModelKey:
    """Return the model for which `member` returns this text."""
    return ModelKey(*text.decode(errors="replace").partition(":")[::2])


def probe(tag: str) -> str:
    """Return the key for a test write. In a cluster, `tag` selects the hash slot; without a cluster, it is ""."""
    return f"wager:{{{tag}}}:probe" if tag else "wager:probe"


def model(name: str) -> str:
    """Return the key of a model's hash.

    Fields: incarnation, definition, summary, created_at, last_at (the moment of the first feedback in the last entry
    of rounds), and the counters rounds, predictions, correct, refused:<status>. If any rounds are damaged,
    `damaged` is their number, and `damage` is the version of the damage record. `warnings` is a JSON list of the
    learner's warnings, which is missing until the first warning is published. `overview` is what the published
    statistics say in short (`service.analytics.overviews`). `changes` is the number of changes of the
    model, and `history` has a line of JSON for each change. `digests` joins the digests of the history before the first
    change and after each change (`digests_of`), and `digest` is the last of them. `definition` never changes. `summary`
    describes the model after its last change. `partial` is the sum of the rewards between 0 and 1, `expired` the number
    of rounds without feedback, and `abstained` the number of abstentions. A field `open:<moment>` has the bytes of
    those open predictions whose keys will expire by this moment, and `open_bytes` is the sum of these fields.
    `predictions_refused` is the number of predictions that were not stored because `open_bytes` would have exceeded its
    maximum. `closing` is the rule for closing expired predictions (`service.models.policies`), and `retention` is
    `retain_seconds`; `bulk` is 1 if the model is in `FLAGS`. All three are missing if they do not apply.
    """
    return f"wager:{{{name}}}:model"


def deleted(name: str, incarnation: str) -> str:
    """Return the key of a hash that counts the open predictions of a deleted model until they are erased.

    Fields: `open:<moment>`, as in the model's hash. The key expires at the latest of these moments.
    """
    return f"wager:{{{name}}}:deleted:{incarnation}"


def of_incarnation(key: str) -> ModelKey | None:
    """Return the incarnation of a model that alone uses a key, or None if there is none."""
    match key.split(":"):
        case ["wager", name, incarnation, _, *_]:
            return ModelKey(name[1:-1], incarnation)
    return None


def log(name: str, incarnation: str) -> str:
    """Return the key of a model's log, a stream of rounds and changes.

    The id of an entry is <rounds>-<changes>, the totals up to and including this entry. Fields: `t`, its type; `v`, the
    version of its format; `d`, the bytes of its rounds or the JSON of its change; for rounds, `p`, their block's id.
    """
    return f"wager:{{{name}}}:{incarnation}:log"


def snapshot(name: str, incarnation: str) -> str:
    """Return the key of a model's latest snapshot, a hash.

    Fields: the numbered parts of the state, and version, rounds, changes, digest, tally, at, check. `tally` is the
    encoded statistics. `at` is when it was stored, in seconds since the epoch on the store's clock.
    `service.store.redis.snapshot_parts` defines `check`. A snapshot that cannot be read also has the field `damaged`.
    """
    return f"wager:{{{name}}}:{incarnation}:snapshot"


def coming_snapshot(name: str, incarnation: str, digest: str) -> str:
    """Return the key of a hash with the parts of an unfinished snapshot; `digest` identifies its content."""
    return f"wager:{{{name}}}:{incarnation}:snapshot:{digest}"


def kept(name: str, incarnation: str) -> str:
    """Return the key of a hash that lists a model's kept snapshots: the `KeptNote` of each as JSON, by its id."""
    return f"wager:{{{name}}}:{incarnation}:kept"


def kept_snapshot(name: str, incarnation: str, id_: str) -> str:
    """Return the key of a kept snapshot, a hash with the fields of a snapshot. It never changes."""
    return f"wager:{{{name}}}:{incarnation}:kept:{id_}"


def coming_kept(name: str, incarnation: str, id_: str, digest: str) -> str:
    """Return the key of a hash with the parts of an unfinished kept snapshot."""
    return f"wager:{{{name}}}:{incarnation}:coming:{id_}:{digest}"


def statistics(name: str, incarnation: str) -> str:
    """Return the key of a model's published statistics, a hash.

    Fields: version, rounds, tally (the statistics), and s:<slot>, all predictions made by the end of that time slot.
    """
    return f"wager:{{{name}}}:{incarnation}:tally"


def damage(name: str, incarnation: str) -> str:
    """Return the key of a model's damage record, a hash.

    A field is `<first>-<last>`, for a range of rounds, or `snapshot-<rounds>`. Its value is a JSON object with `entry`,
    `reason` and `at`, which become those of `service.store.values.Damage`.
    """
    return f"wager:{{{name}}}:{incarnation}:damage"


def deadlines(name: str, incarnation: str) -> str:
    """Return the key of a sorted set: the ids of the blocks to close, each with the end of its window as its score."""
    return f"wager:{{{name}}}:{incarnation}:deadlines"


SHADOW_SLOTS = 4
"""Maximum shadows of a model. Each occupies a slot, whose number is part of the key of its snapshot."""


def shadows(name: str, incarnation: str) -> str:
    """Return the key of a model's shadows, a hash.

    Fields of each shadow: <name>, JSON with its learner (`service.shadows.definition`); <name>:id, which changes
    whenever its learner is replaced; <name>:slot; <name>:since, the position <rounds>-<changes> after which its fold
    begins; <name>:restarts, how often it had to restart; and <name>:rounds, the number of rounds in its snapshot.

    While a promotion needs rounds of the log, `:promotion:change` is the number of its change, `:promotion:since` is
    the position after which the log keeps all rounds, and `:promotion:at` is when it began to keep them.
    """
    return f"wager:{{{name}}}:{incarnation}:shadows"


def shadow(name: str, incarnation: str, slot: int) -> str:
    """Return the key of a shadow's snapshot, a hash with the fields of `snapshot`; but `tally` is the comparison."""
    return f"wager:{{{name}}}:{incarnation}:shadow:{slot}"


def of_shadows(name: str, incarnation: str) -> list[str]:
    """Return the keys of a model's shadows, and of their snapshots in the order of the slots."""
    slots = range(1, SHADOW_SLOTS + 1)
    return [shadows(name, incarnation), *(shadow(name, incarnation, slot) for slot in slots)]


def imports(name: str, incarnation: str) -> str:
    """Return the key of a hash: for each source of imported rounds, "<rounds imported> <moment of its last use>"."""
    return f"wager:{{{name}}}:{incarnation}:imports"


def block(name: str, incarnation: str, block_id: str) -> str:
    """Return the key of a string with the record of one or more predictions (`service.store.records.records`)."""
    return f"wager:{{{name}}}:{incarnation}:p:{block_id}"


@lru_cache(maxsize=4096)
def of_blocks(name: str, incarnation: str) -> tuple[str, ...]:
    """Return the keys that the scripts that change blocks expect before the keys of the blocks."""
    return model(name), log(name, incarnation), deadlines(name, incarnation)


def lasting(name: str, incarnation: str) -> list[str]:
    """Return the keys of one incarnation of a model, except those that expire and those of kept snapshots.

    The last key is that of the list of kept snapshots.
    """
    own = [part(name, incarnation) for part in (log, snapshot, statistics, damage, deadlines, imports)]
    return [model(name), *own, *of_shadows(name, incarnation), kept(name, incarnation)]
