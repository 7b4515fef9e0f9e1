"""The paths and bodies of the HTTP API that generators use, for single requests and batches."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from service.load.http.client import NO_ANSWER
from service.load.http.sender import OK

_TOO_MANY_REQUESTS = 429


class Outcome(NamedTuple):
    """The outcome of one item of a request."""

    status: int
    label: str = ""


def is_open(status: int) -> bool:
    """Check whether a status leaves the outcome unknown. Then the request is repeated, which is safe."""
    return status in {NO_ANSWER, _TOO_MANY_REQUESTS} or status >= 500


def predict_path(batch: int) -> str:
    """Return the path of predictions."""
    return "/predict" if batch == 1 else "/predict/batch"


def feedback_path(batch: int) -> str:
    """Return the path of feedback."""
    return "/feedback" if batch == 1 else "/feedback/batch"


def predict_body(model: str, ids: Sequence[str], contexts: Sequence[str], batch: int) -> bytes:
    """Return a body that requests predictions with these ids; contexts are JSON."""
    if batch == 1:
        return f'{{"model":"{model}","prediction_id":"{ids[0]}","context":{contexts[0]}}}'.encode()
    given = ",".join(f'"{each}"' for each in ids)
    return f'{{"model":"{model}","prediction_ids":[{given}],"contexts":[{",".join(contexts)}]}}'.encode()


def feedback_item(model: str, id_: str, correct: bool, true_label: str | None) -> str:
    """Return the feedback on one prediction as JSON."""
    truth = f'"correct":{"true" if correct else "false"}' if true_label is None else f'"true_label":"{true_label}"'
    return f'{{"prediction_id":"{model}:{id_}",{truth}}}'


def feedback_body(items: Sequence[str], batch: int) -> bytes:
    """Return a body with these feedback items."""
    return (items[0] if batch == 1 else f'{{"feedback":[{",".join(items)}]}}').encode()


def outcomes(status: int, body: bytes, n: int, batch: int) -> list[Outcome]:
    """Read the outcome of each of n items from a response. All are NO_ANSWER if the response is unreadable."""
    if status != OK:
        return [Outcome(status)] * n
    try:
        answer = json.loads(body)
        items = [answer] if batch == 1 else next(iter(answer.values()))
        found = [_outcome(item) for item in items]
    except (ValueError, LookupError, TypeError, AttributeError):
        return [Outcome(NO_ANSWER)] * n
    return found if len(found) == n else [Outcome(NO_ANSWER)] * n


def _outcome(item: dict[str, Any]) -> Outcome:
    if "propensity" in item or "round" in item:
        return Outcome(OK, item.get("label") or "")
    return Outcome(int(item["status"]))
