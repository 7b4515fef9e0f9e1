"""The laws of predictions: the draw is kept, and a prediction has seen only rounds of the log."""

from typing import Any

import numpy as np
import pytest

from service.choice.requests import PredictionRequest
from service.errors import StoreUnavailableError
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.service.rounds.sessions import judge, predict, session_cache, settled
from tests.service.sample_models import UNIFORM, make_model, play, some_contexts, whole_log


async def test_a_round_keeps_its_residual_uniform(store: RedisStore, name: str) -> None:
    """The uniform number selects the label, and the residual uniform is its position within that label's share."""
    model = await make_model(store, name, learner=UNIFORM)
    session = await session_cache(store).find(name, "model")
    await judge(session, await predict(session, 8))
    rounds = model.rounds_of(model.choice.records.rows([entry.payload for entry in await whole_log(store, model.key)]))
    numbers = 4.0 * np.random.default_rng(1).random(8)
    assert (rounds.labels == numbers.astype(int)).all()
    np.testing.assert_allclose(rounds.residual_uniforms, numbers % 1.0, atol=1e-12)


class Forgetful(RedisStore):
    """A store that loses the latest round just before predictions are stored, a few times."""

    times = 0

    async def add_predictions(self, key: ModelKey, *args: Any) -> Any:
        """See `Store.add_predictions`."""
        if self.times:
            self.times -= 1
            rounds = (await self.read_tail(key, 0, 1)).round_count
            await self.command("XDEL", keys.log(*key), f"{rounds}-0")
            await self.command("HINCRBY", keys.model(key.name), "rounds", -1)
        return await super().add_predictions(key, *args)


@pytest.mark.parametrize("lag", [0.0, 60.0])
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_prediction_has_seen_only_rounds_of_the_log(store_url: str, name: str, times: int, lag: float) -> None:
    """A log that has shrunk is accepted; one that keeps shrinking is an error."""
    store = Forgetful(store_url, timeout=5.0)
    model = await make_model(store, name, freshness={"max_lag_seconds": lag})
    await play(store, model, 6)
    session = await session_cache(store).find(name, "model")
    await predict(session, 1)
    store.times = times
    ask = PredictionRequest(some_contexts(1, 1)[0], None, include_distribution=False)
    if times == 3:
        with pytest.raises(StoreUnavailableError, match="repeatedly lost rounds"):
            await session.predictor.predict(ask)
    else:
        assert (await session.predictor.predict(ask)).rounds_seen == 6 - times
    await settled(session)
    await store.close()
