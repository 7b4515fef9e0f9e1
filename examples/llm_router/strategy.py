"""A routing strategy of LiteLLM that asks Wager which deployment answers a prompt, and reports how well it did."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from litellm import Router
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.router import CustomRoutingStrategyBase, RouterRateLimitErrorBasic

from wager_client import AsyncWager, FeedbackQueue, Wager

ID = "wager_prediction_id"
"""The name of the prediction's id in the metadata of a request; None for a default answer."""

Judge = Callable[[Mapping[str, Any], Any], float | None]
"""Scores an answer from 0 to 1, given LiteLLM's description of the call and the response; None: somebody else will."""


class WagerStrategy(CustomRoutingStrategyBase, CustomLogger):
    """Chooses deployments of a router by a Wager model whose labels are their ids; one prediction for each attempt.

    Args:
        router: give it the strategy with `register_plugin`, and append the strategy to `litellm.callbacks`.
        wager: for calls without asyncio. Its `timeout` bounds what routing adds to an attempt.
        async_wager: for calls with asyncio.
        feedback: sends the scores.
        model: the name of the Wager model.
        default: the deployment that answers while Wager is away.
        judge: runs after the answer, in a thread, so it may be slow.
    """

    def __init__(
        self,
        router: Router,
        wager: Wager,
        async_wager: AsyncWager,
        feedback: FeedbackQueue,
        *,
        model: str,
        default: str,
        judge: Judge,
    ) -> None:
        super().__init__()
        self._router, self._feedback, self._judge = router, feedback, judge
        self._wager, self._async_wager = wager, async_wager
        self._model, self._default = model, default

    async def async_get_available_deployment(
        self,
        model: str,
        messages: list[dict[str, Any]] | None = None,
        input: str | list[Any] | None = None,  # noqa: A002 - LiteLLM's name
        specific_deployment: bool | None = False,
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the deployment that Wager chooses for one attempt."""
        metadata, ids = _metadata(request_kwargs), self._ids(model)
        cooling = await self._router.health().cooldowns.async_get_active_cooldowns(ids, None)
        question = self._question(model, ids, cooling, context_of(messages or [], metadata))
        return self._answer(await self._async_wager.predict(self._model, **question), metadata)

    def get_available_deployment(
        self,
        model: str,
        messages: list[dict[str, Any]] | None = None,
        input: str | list[Any] | None = None,  # noqa: A002 - LiteLLM's name
        specific_deployment: bool | None = False,
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the deployment that Wager chooses for one attempt, without asyncio."""
        metadata, ids = _metadata(request_kwargs), self._ids(model)
        cooling = self._router.health().cooldowns.get_active_cooldowns(ids, None)
        question = self._question(model, ids, cooling, context_of(messages or [], metadata))
        return self._answer(self._wager.predict(self._model, **question), metadata)

    def _ids(self, group: str) -> list[str]:
        return [each["model_info"]["id"] for each in self._router.registry().deployments(group) or []]

    def _question(self, group: str, ids: Sequence[str], cooling: Any, context: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of `predict`. Raises `RouterRateLimitErrorBasic` if all deployments are cooling down."""
        resting = {deployment for deployment, _ in cooling}
        eligible = [deployment for deployment in ids if deployment not in resting]
        if not eligible:
            raise RouterRateLimitErrorBasic(group)
        default = self._default if self._default in eligible else eligible[0]
        return {"context": context, "eligible": eligible, "default": default}

    def _answer(self, prediction: Any, metadata: dict[str, Any]) -> Any:
        metadata[ID] = prediction.prediction_id
        return self._router.registry().deployment_dict(prediction.label)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Report the judge's score of an answer."""
        await asyncio.to_thread(self.log_success_event, kwargs, response_obj, start_time, end_time)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Report a failed attempt, which earns nothing."""
        self._report(kwargs, 0.0)

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Report the judge's score of an answer."""
        self._report(kwargs, self._judge(kwargs, response_obj))

    def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Report a failed attempt, which earns nothing."""
        self._report(kwargs, 0.0)

    def _report(self, kwargs: Mapping[str, Any], score: float | None) -> None:
        metadata = kwargs["litellm_params"].get("metadata") or {}
        prediction_id = metadata.get(ID)  # other calls of this process have none
        if prediction_id is not None and score is not None:
            self._feedback.put(prediction_id, reward=score)


def context_of(messages: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known about a prompt. The request's metadata may have a `task` and an `embedding`."""
    text = "\n".join(str(message.get("content") or "") for message in messages)
    known = {
        "length": len(text),
        "turns": len(messages),
        "digits": sum(map(str.isdigit, text)) / max(1, len(text)),
        "not_ascii": not text.isascii(),
        "code": "```" in text or "def " in text,
        "task": metadata.get("task"),
        "embedding": metadata.get("embedding"),
    }
    return {name: value for name, value in known.items() if value is not None}


def _metadata(request: dict[str, Any] | None) -> dict[str, Any]:
    """Return the metadata of a request, which LiteLLM also passes to the callbacks."""
    found: dict[str, Any] = {} if request is None else request.setdefault("metadata", {})
    return found
