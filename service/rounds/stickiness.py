"""Sticky requests: repeated evaluations of a flag have one id, so that they return the stored prediction.

The store keeps nothing else about a targeting key. An id is a hash of the request and of the model's history, so no
client can know or take it, and after a change of the model, such as a retired label, every evaluation has a new one.
"""

import hashlib
import json
from base64 import urlsafe_b64encode

from service.choice.requests import PredictionRequest
from service.models.model import Model
from service.prediction_id import STICKY, PredictionId
from service.rounds.deciding import fingerprint
from service.schemas.models import SHORTEST_WINDOW, ModelDefinition

_BYTES = 18  # of an id's hash


def stickiness(definition: ModelDefinition, targeting_key: str, now: float) -> bytes:
    """Return `sticky` of a request at `now`, in seconds since the epoch.

    It changes every `sticky_seconds`, but at least once in a window, so that no repeat returns an expired prediction.
    """
    seconds = max(min(definition.ofrep.sticky_seconds, definition.window_seconds), SHORTEST_WINDOW)
    return json.dumps([targeting_key, now // seconds]).encode()


def identified(model: Model, request: PredictionRequest) -> PredictionRequest:
    """Return a checked request with the id that its `sticky`, its context and its options have in this model."""
    if request.sticky is None:
        return request
    content = model.digest + fingerprint(model, request) + model.key.incarnation.encode() + request.sticky
    block = STICKY + urlsafe_b64encode(hashlib.blake2b(content, digest_size=_BYTES).digest()).decode()
    return request._replace(id=PredictionId(model.name, block))
