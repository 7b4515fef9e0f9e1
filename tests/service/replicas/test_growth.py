"""Folds that may enlarge a state."""

from typing import Any

import numpy as np
import pytest

from service.replicas.replica import Replica
from service.replicas.tails import Run
from service.store.redis.redis_store import RedisStore
from tests.learners.worlds import random_rounds
from tests.service.sample_models import COMPUTE, make_model


@pytest.mark.parametrize("most", [1000, 16])
async def test_a_fold_that_may_enlarge_the_state_counts_its_copy(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Copying a large state takes long, so it must not run in the event loop; a state of full size is not copied."""
    choice = {"algorithm": "fastcb", "max_features": most}
    model = await make_model(store, name, learner=choice, features={"kind": "dense", "size": 1000, "intercept": False})
    replica, costs, run = Replica(model, store, COMPUTE), list[int](), COMPUTE.run_in_thread_if_costly
    await replica.catch_up()
    replica._compiled.add(("fastcb", True))

    def noted(cost: int, *rest: Any) -> Any:
        costs.append(cost)
        return run(cost, *rest)

    monkeypatch.setattr(COMPUTE, "run_in_thread_if_costly", noted)
    before = replica.bytes
    await replica._learn(Run(random_rounds(1, 1, model.learner), np.array([1]), has_evidence=True))
    assert costs == [model.learner.fold_cost(1000) + (before if most == 1000 else 0)]
