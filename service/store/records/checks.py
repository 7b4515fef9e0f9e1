"""The check of stored bytes, which a worker writes and the store's scripts verify, and the other way round."""

import hashlib

from service.store.records.layout import CHECK_BYTES


def check_of(data: bytes) -> bytes:
    """Return the check of some bytes, as `redis.sha1hex` would begin."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:CHECK_BYTES].encode()
