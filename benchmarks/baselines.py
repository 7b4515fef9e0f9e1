"""What a user could write without this project: applications with /predict and /feedback that do nothing.

They run in separate processes, without middleware, checks of keys, counters or a store: the baselines of `http`.
"""

import json
from datetime import UTC, datetime

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from service.schemas.rounds import FeedbackAnswer, FeedbackRequest, PredictAnswer, PredictRequest

_PREDICTION = PredictAnswer(
    prediction_id="bench:AZ3kNDvx0000000000AA",
    model="bench",
    label="label-3",
    labels=None,
    propensity=0.905,
    rounds_seen=1000,
    expires_at=datetime(2026, 11, 21, 10, 11, 12, 345678, tzinfo=UTC),
)
_FEEDBACK = FeedbackAnswer("bench:AZ3kNDvx0000000000AA", correct=True, reward=1.0, status="recorded", round=1000)
_ANSWERS = {
    "/predict": b'{"prediction_id":"bench:AZ3kNDvx0000000000AA","model":"bench","label":"label-3","labels":null,'
    b'"propensity":0.905,"rounds_seen":1000,"expires_at":"2026-11-21T10:11:12.345678Z","distribution":null,'
    b'"holdout":false,"slots":null}',
    "/feedback": b'{"prediction_id":"bench:AZ3kNDvx0000000000AA","correct":true,"reward":1.0,"status":"recorded",'
    b'"round":1000}',
}


def plain_fastapi() -> FastAPI:
    """Create a FastAPI application with the request and response types of the service. It answers constants."""
    app = FastAPI()

    @app.post("/predict")
    async def predict(request: PredictRequest) -> PredictAnswer:
        del request
        return _PREDICTION

    @app.post("/feedback")
    async def feedback(request: FeedbackRequest) -> FeedbackAnswer:
        del request
        return _FEEDBACK

    return app


def bare_asgi() -> ASGIApp:
    """Create an ASGI application without a framework. It parses JSON without checking it, and answers constants."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await _live(receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        json.loads(body)
        answer = _ANSWERS[scope["path"]]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        return await send({"type": "http.response.body", "body": answer})

    return app


async def _live(receive: Receive, send: Send) -> None:
    ended = False
    while not ended:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        ended = kind == "lifespan.shutdown"
