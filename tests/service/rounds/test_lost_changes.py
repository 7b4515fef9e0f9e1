"""The laws of changes that the store has lost: a worker that has seen them follows the store, without a mistake."""

from dataclasses import replace
from typing import Any

import pytest

from service.choice.requests import NO_OPTIONS, PredictionRequest
from service.errors import UnknownLabelError
from service.models.changes import Change, StoredLabels
from service.models.model import Model
from service.rounds.importer import RoundImporter
from service.rounds.sessions import ModelSession, SessionCache
from service.schemas.rounds import FeedbackRequest, ImportRequest, PredictAnswer
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Tail
from tests.service.replicas.altering import alter, lose_change, replace_change
from tests.service.rounds.sessions import LARGE, environment
from tests.service.sample_models import LABELS, UNIFORM, make_model, some_contexts
from tests.service.workers import numbered

N = 64  # predictions: uniform draws leave out no label


async def a_session_that_saw(store: RedisStore, name: str, *labels: str) -> ModelSession:
    model = await make_model(store, name, learner=UNIFORM)
    session = ModelSession(model, environment(store))
    await alter(store, model, 0, labels=StoredLabels(add=labels))
    answers = await session.predictor.predict_all(asked(N))
    assert labels_of(answers) == {*LABELS, *labels}
    return session


def asked(n: int, **options: Any) -> list[PredictionRequest]:
    return [PredictionRequest(each, None, True, NO_OPTIONS._replace(**options)) for each in some_contexts(1, n)]


def labels_of(answers: list[PredictAnswer | Exception]) -> set[str | None]:
    for each in answers:
        assert isinstance(each, PredictAnswer), each
        assert each.distribution is not None
        assert each.distribution[str(each.label)] == each.propensity
    return {each.label for each in answers if isinstance(each, PredictAnswer)}


async def add_others(store: RedisStore, model: Model, *labels: str) -> None:
    await replace_change(store, model, Change(at=9.0, labels=StoredLabels(add=labels)).encode())


@pytest.mark.parametrize("others", [("kept",), ("kept", "more")])
async def test_an_answer_has_a_label_of_the_change_that_is_there(
    store: RedisStore, name: str, others: tuple[str, ...]
) -> None:
    session = await a_session_that_saw(store, name, "lost")
    await add_others(store, session.model, *others)
    assert labels_of(await session.predictor.predict_all(asked(N))) == {*LABELS, *others}


@pytest.mark.parametrize("others", [(), ("kept",), ("kept", "more")])
async def test_a_lost_label_is_not_eligible(store: RedisStore, name: str, others: tuple[str, ...]) -> None:
    session = await a_session_that_saw(store, name, "lost")
    await (add_others(store, session.model, *others) if others else lose_change(store, session.model))
    answers = await session.predictor.predict_all(asked(2, eligible=("lost", LABELS[0])))
    assert [type(each) for each in answers] == [UnknownLabelError] * 2
    assert labels_of(await session.predictor.predict_all(asked(N))) == {*LABELS, *others}


async def test_a_label_in_the_place_of_a_lost_one_is_a_truth(store: RedisStore, name: str) -> None:
    session = await a_session_that_saw(store, name, "lost")
    await add_others(store, session.model, "kept")
    other = ModelSession(session.model, replace(environment(store), new_id=numbered("other")))
    (answer,) = await other.predictor.predict_all(asked(1, eligible=("kept",)))
    assert isinstance(answer, PredictAnswer)
    body = {"prediction_id": answer.prediction_id, "true_label": "kept"}
    given = await session.feedback.give(FeedbackRequest.model_validate(body))
    assert given.correct


class Losing(RedisStore):
    """A store that loses the change of a model, and gets another one, before some read of the log."""

    model: Model
    reads_before = 0  # further reads before the loss

    async def read_tail(self, key: ModelKey, after: int, limit: int) -> Tail:
        self.reads_before -= 1
        if self.reads_before == 0:
            await add_others(self, self.model, "kept")
        return await super().read_tail(key, after, limit)


async def test_an_imported_round_has_no_label_in_the_place_of_a_lost_one(store_url: str, name: str) -> None:
    """Rounds that were read before the loss are read again: the lost label is refused, and nothing is imported."""
    store = Losing(store_url, timeout=5.0)
    store.model = await make_model(store, name, learner=UNIFORM)
    await alter(store, store.model, 0, labels=StoredLabels(add=("lost",)))
    worker = environment(store)
    sessions = SessionCache(worker, LARGE)
    await (await sessions.find(name, "model")).replica.catch_up()
    store.reads_before = 2  # the first is before the rounds are read
    given = {"context": some_contexts(1, 1)[0], "label": "lost", "propensity": 0.2, "correct": True}
    request = ImportRequest.model_validate({"source": "file", "offset": 0, "rounds": [given]})
    with pytest.raises(UnknownLabelError):
        await RoundImporter(sessions, worker).add(name, request)
    assert (await store.read_tail(store.model.key, 0, 1)).round_count == 0
    await store.close()
