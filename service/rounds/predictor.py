"""Makes predictions. Decides, stores and answers concurrent requests for a model together."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial

from service import costs, kernels
from service.background.upkeep import Upkeep
from service.choice.requests import PredictionRequest, Requests
from service.environment import Environment
from service.errors import (
    InvalidInputError,
    LearnerNotReadyError,
    PredictionConflictError,
    StoreUnavailableError,
    WagerError,
)
from service.models.model import Model
from service.models.policies import keep_seconds
from service.per_item import apply_to_valid, indices_of, map_results
from service.replicas.replica import Replica
from service.rounds.answering import answer, answering_cost, stored_answer
from service.rounds.deciding import Basis, Decided, ImpossibleDecisionsError, chance_of, decide, without_impossible
from service.rounds.group_commit import ITEMS_AT_ONCE, GroupCommit
from service.rounds.stickiness import identified
from service.schemas.rounds import PredictAnswer
from service.store.values import Block, Head, Seen, Tail
from service.tuples import named_tuples

# Maximum attempts to store predictions. The first may require that no newer round exists; all others accept newer ones.
_ATTEMPTS = 3

_BYTES_AT_ONCE = 2**23  # maximum bytes of predictions stored together, which takes about ten milliseconds of the store
_NUMBERS_AT_ONCE = 4_000_000  # maximum probabilities computed together: 32 MB in an array


class _ModelChangedError(Exception):
    """The model has changed since the requests of a batch were checked."""


class Predictor:
    """Makes the predictions of one model."""

    def __init__(self, replica: Replica, environment: Environment, upkeep: Upkeep) -> None:
        self._replica, self._environment, self._upkeep = replica, environment, upkeep
        self._first_model = replica.model  # while the model is this one, no request needs a second check
        self._most_of: Model | None = None  # the model for which the next two were computed
        self._most = 1  # maximum requests decided together
        self._keep_seconds = 0.0  # how long the store keeps predictions
        self._decided: Model | None = None  # the model of the last decision in a thread, which loads its kernels
        self._expects_rounds = False  # whether the log probably has rounds that the state lacks
        self._commits = GroupCommit[PredictionRequest, PredictAnswer]()

    @property
    def idle(self) -> bool:
        """Whether no request is waiting or in flight."""
        return self._commits.idle

    async def predict(self, request: PredictionRequest) -> PredictAnswer:
        """Return the prediction after it is stored; raise `InvalidInputError` if the request does not fit the model."""
        model = self._replica.model
        if self._decided is not model:
            await kernels.wait_for(model)
        repeatable = request.id is not None or request.sticky is not None
        if repeatable or model.choice.reading_cost(request, costs.INLINE) >= costs.INLINE:
            (answer,) = await self.predict_all([request])  # it may be a repetition, or take long to read
            if isinstance(answer, Exception):
                raise answer
            return answer
        try:
            checked = model.choice.check(request)
        except InvalidInputError:  # another worker may have changed or recreated the model
            await self._replica.catch_up()
            checked = self._replica.model.choice.check(request)
        return await self._commits.submit(checked, self._predict_each, self._most_together())

    async def predict_all(self, requests: Requests) -> list[PredictAnswer | Exception]:
        """Handle each request as `predict` does; return errors instead of raising them."""
        try:
            await kernels.wait_for(self._replica.model)
        except LearnerNotReadyError as error:
            return [error] * len(requests)
        checked = await self._check_each(requests)
        if indices_of(checked, InvalidInputError):
            try:
                await self._replica.catch_up()
            except WagerError as error:
                return [error] * len(requests)
            checked = await self._check_each(requests)
        most = self._most_together()
        submit = partial(self._commits.submit_all, handle=self._predict_each, room=most, most=most)
        answers = await apply_to_valid(submit, checked)
        if refused := indices_of(answers, InvalidInputError):
            repeated = await asyncio.gather(*(self._repeated(requests[i]) for i in refused))
            for i, stored in zip(refused, repeated, strict=True):
                answers[i] = stored or answers[i]
        return answers

    async def _repeated(self, request: PredictionRequest) -> PredictAnswer | Exception | None:
        """Return the stored answer to a refused request if it was answered before a change of the model; else None."""
        model, run = self._replica.model, self._environment.compute.run_in_thread_if_costly
        if request.id is None:
            return None
        cost = checking_cost(model, [request])
        (parsed,) = await run(cost, model.name, map_results, model.choice.parse, [request])
        if isinstance(parsed, Exception):  # it is invalid regardless of changes
            return None
        record = await self._environment.store.read_block(model.key, request.id.block)
        if record is None:
            return None
        answer = await run(cost, model.name, stored_answer, model, parsed, record)
        return None if isinstance(answer, PredictionConflictError) else answer

    async def _check_each(self, requests: Requests) -> list[PredictionRequest | Exception]:
        model, run = self._replica.model, self._environment.compute.run_in_thread_if_costly
        if model.choice.fit_together(requests):
            return list(requests)
        return await run(checking_cost(model, requests), model.name, map_results, model.choice.check, requests)

    def _predict_each(self, requests: Requests) -> Awaitable[list[PredictAnswer | Exception]]:
        if len(requests) == 1 or not any([request.options.top for request in requests]):
            return self._predict_alike(requests)
        return self._predict_by_slots(requests)

    async def _predict_by_slots(self, requests: Requests) -> list[PredictAnswer | Exception]:
        answers = dict[int, PredictAnswer | Exception]()
        for top in dict.fromkeys(request.options.top for request in requests):
            alike = [i for i, each in enumerate(requests) if each.options.top == top]
            for some in self._together(requests, alike, self._most_together(top)):
                answers.update(zip(some, await self._predict_alike([requests[i] for i in some]), strict=True))
        return [answers[i] for i in range(len(requests))]

    async def _predict_alike(self, requests: Requests) -> list[PredictAnswer | Exception]:
        model = self._replica.model
        if model is not self._first_model:  # the model may have changed after the requests were checked
            checked = map_results(partial(_revalidated, model), requests)
            if any(isinstance(each, Exception) for each in checked):
                return await apply_to_valid(self._predict_alike, checked)
        if any([each.sticky is not None for each in requests]):
            requests = [identified(model, each) for each in requests]
        try:
            decided, existing = await self._decide_and_store(model, requests)
        except ImpossibleDecisionsError as error:
            return await without_impossible(self._predict_alike, requests, error, model.name)
        except _ModelChangedError:
            return await self._predict_alike(requests)
        self._upkeep.note_predictions(len(requests))
        cost = answering_cost(model, requests, existing)
        if cost < costs.INLINE:
            return answer(model, decided, existing)
        return await self._environment.compute.run(model.name, answer, model, decided, existing)

    async def _decide_and_store(self, model: Model, requests: Requests) -> tuple[list[Decided], list[Head]]:
        """Decide with a state that is new enough, and store the predictions.

        Return the predictions, in slices, and the store's result for each block. Raise `_ModelChangedError` if the
        model has changed since the requests were checked.
        """
        replica = self._replica
        async with replica.lock:
            seen = await self._new_enough()
            for _ in range(_ATTEMPTS):
                # Comparing the number of changes would not do: another change may have replaced one that was lost.
                if replica.model is not model:
                    raise _ModelChangedError
                decided = await self._decide(model, seen, requests)
                pairs = [pair for each in decided for pair in zip(each.blocks, each.records, strict=True)]
                blocks = named_tuples(Block, pairs)
                stored = await self._environment.store.add_predictions(model.key, blocks, self._keep_seconds, seen)
                if not isinstance(stored, Tail):
                    return decided, stored
                self._expects_rounds = True
                await replica.catch_up_locked(stored)  # newer feedback arrived: learn from it, then decide again
                seen = replica.seen(allow_newer=True)
        raise StoreUnavailableError("the store repeatedly lost rounds; try again")

    async def _new_enough(self) -> Seen:
        """Return what the state has seen; `allow_newer` is set if the state is known to be new enough.

        If not, the store refuses the predictions when the log has newer rounds. A refusal wastes a decision, so
        this method folds the log first if it probably has newer rounds. Call with the replica's lock held.
        """
        replica = self._replica
        includes_all = replica.is_newer_than(replica.model.definition.freshness.max_lag_seconds)
        if not includes_all and (replica.state is None or self._expects_rounds or self._upkeep.rounds_waiting):
            before = replica.round_count
            await replica.catch_up_locked()
            self._expects_rounds, includes_all = replica.round_count > before, True
        return replica.seen(allow_newer=includes_all)

    async def _decide(self, model: Model, seen: Seen, requests: Requests) -> list[Decided]:
        """Decide in the event loop, or, if that is slow, in a thread, where other models get a turn between slices."""
        environment, first = self._environment, requests[0]
        chance = chance_of(model, requests, environment.rng.random)
        basis = Basis(model, self._replica.state, seen, environment.now(), self._keep_seconds)
        cost = model.choice.deciding_cost(requests) * (first.options.top or 1)
        if self._decided is model and cost + costs.FINGERPRINT * (first.id is not None) * len(requests) < costs.INLINE:
            return [decide(basis, requests, chance, environment.new_id)]
        decided = list[Decided]()
        for some in model.choice.slices(requests):
            args = basis, requests[some], chance.rows(some), environment.new_id
            decided.append(await environment.compute.run(model.name, decide, *args))
            self._decided = model
        return decided

    def _together(self, requests: Requests, indices: Sequence[int], most: int) -> list[list[int]]:
        """Divide the indices of parsed requests into parts of at most `most`, and of limited size in the store."""
        choice, parts, size = self._replica.model.choice, [list[int]()], 0
        for i in indices:
            own = choice.context_bytes(requests[i]) * (requests[i].options.top or 1)
            if parts[-1] and (len(parts[-1]) == most or size + own > _BYTES_AT_ONCE):
                parts.append([])
                size = 0
            parts[-1].append(i)
            size += own
        return parts

    def _most_together(self, slots: int | None = None) -> int:
        model = self._replica.model
        if self._most_of is not model:
            self._most_of, self._keep_seconds = model, keep_seconds(model.definition)
            self._most = min(
                ITEMS_AT_ONCE,
                _NUMBERS_AT_ONCE // max(1, len(model.definition.labels)),
                costs.PREDICTED_TOGETHER // costs.typical_decision(model.learner),
                _BYTES_AT_ONCE // model.choice.records.round_bytes,
            )
        return max(1, self._most // (slots or 1))


def checking_cost(model: Model, requests: Requests) -> int:
    """Return the cost of checking requests in multiply-adds; it need not be exact once it reaches `costs.INLINE`."""
    cost = 0
    for request in requests:
        cost += costs.OPTIONS + model.choice.reading_cost(request, costs.INLINE)
        if cost >= costs.INLINE:
            break
    return cost


def _revalidated(model: Model, request: PredictionRequest) -> PredictionRequest:
    model.choice.check_options(request)
    return request
