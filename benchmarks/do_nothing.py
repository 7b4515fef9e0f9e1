"""Do-nothing routes with the request and answer models of /predict and /feedback, the baselines of `http`.

The service under test has them in its own application. The plain application has nothing else.
"""

from datetime import UTC, datetime

from fastapi import APIRouter, FastAPI

from service.schemas.rounds import FeedbackAnswer, FeedbackRequest, PredictAnswer, PredictRequest

PREFIX = "/do-nothing"
"""Path prefix of the routes in the service under test."""


def routes(prefix: str = "") -> APIRouter:
    """Return the two routes. FastAPI parses, validates and encodes; the answers are constants."""
    prediction = PredictAnswer(
        prediction_id="bench:AZ3kNDvx0000000000AA",
        model="bench",
        label="label-3",
        labels=None,
        propensity=0.905,
        rounds_seen=1000,
        expires_at=datetime(2026, 11, 21, 10, 11, 12, 345678, tzinfo=UTC),
    )
    router = APIRouter(prefix=prefix)

    @router.post("/predict")
    async def predict(request: PredictRequest) -> PredictAnswer:
        del request
        return prediction

    @router.post("/feedback")
    async def feedback(request: FeedbackRequest) -> FeedbackAnswer:
        return FeedbackAnswer(str(request.prediction_id), correct=True, reward=1.0, status="recorded", round=1000)

    return router


def plain_app() -> FastAPI:
    """Create what a user would write without this project: FastAPI with the two routes, without middleware or store."""
    app = FastAPI()
    app.include_router(routes())
    return app
