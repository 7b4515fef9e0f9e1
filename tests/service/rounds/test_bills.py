"""What logged rounds cost does not depend on which of them are read together, so that every fold gets the same λ."""

import json
from typing import Any

import httpx2
import numpy as np
import pytest

from learners.evaluation.progressive import Terms, progress_unchecked
from service.choice.choice import Choice
from service.models.learner_choice import build_learner
from service.models.model import Model
from service.schemas.models import ModelDefinition
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.service.api.http_api import Api, body_of

PACED = {"costs": {"red": 1.0}, "budget": {"cost": 0.5}, "on_expiry": "incorrect", "window_seconds": 600}


def weights(choice: Choice, model: Model, pages: list[list[bytes]]) -> tuple[list[float], Any]:
    """Return the λ of each round, and the pacing, after another learner's fold of some pages of the log."""
    found, state = list[float](), model.learner.init()
    for page in pages:
        rows = choice.records.rows(page)
        bills, rounds = choice.bills(rows), model.rounds_of(rows)
        terms = Terms(limits=choice.limits, budget=choice.budget)
        if bills is not None:
            found += bills.prices.weights.tolist()
            terms = terms._replace(prices=bills.prices, lags=bills.lags)
        state, _ = progress_unchecked(model.learner, state, rounds, terms=terms, in_python=True)
    return found, state.pacing


@pytest.mark.parametrize("learner", ["fastcb", "squarecb"])
async def test_bills_are_the_same_for_any_pages(
    client: httpx2.AsyncClient, store: RedisStore, name: str, learner: str
) -> None:
    """Also if a page has only rounds of before the model had costs."""
    api = Api(client, "", name)
    body_of(await api.create(learner=learner), 201)
    await api.learn(4)
    body_of(await api.change("*", **PACED, learn="on_arrival"), 200)
    await api.learn(4)
    stored = await store.get_model(api.name)
    assert stored is not None
    entries = [each.payload for each in (await store.read_tail(stored.key, 0, 100)).entries]
    definition = ModelDefinition.model_validate(json.loads(stored.definition) | PACED)
    model = Model(ModelKey(api.name, "test"), definition, build_learner(definition))
    one, pacing = weights(model.choice, model, [entries])
    other, again = weights(model.choice, model, [[each] for each in entries])
    assert (len(one), one) == (8, other)
    np.testing.assert_array_equal(pacing, again)
    assert pacing[3] == 8.0  # rounds
