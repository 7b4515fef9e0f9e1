"""`python llm_router_calls.py URL MODEL`: calls of every kind through LiteLLM's router, with a deployment that fails.

Creates the Wager model, makes the calls, and prints the deployments that were really called, as JSON. It runs in the
environment of `make examples`, which the tests do not have.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from litellm.llms.custom_llm import CustomLLMError

from llm_router.strategy import WagerStrategy
from wager_client import AsyncWager, FeedbackQueue, Wager

GROUPS = {"chat": ["good", "better"], "mixed": ["fine", "bad"], "broken": ["worse"], "torn": ["worst"], "old": ["poor"]}
WORKING = {"good", "better", "fine"}
PROMPT: Any = [{"role": "user", "content": "hello"}]
called: list[str] = []


class StandIn(litellm.CustomLLM):
    def completion(self, model: str, messages: Any, *_: Any, **__: Any) -> Any:
        called.append(model)
        if model not in WORKING:
            raise CustomLLMError(500, "out of order")
        return litellm.mock_completion(model=model, messages=messages, mock_response="hello")

    async def acompletion(self, *args: Any, **kwargs: Any) -> Any:
        return self.completion(*args, **kwargs)

    def streaming(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self.completion(*args, **kwargs)
        for word in ("hel", "lo"):
            last = word == "lo"
            yield {
                "text": word,
                "index": 0,
                "is_finished": last,
                "finish_reason": "stop" if last else None,
                "tool_use": None,
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }

    async def astreaming(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for chunk in self.streaming(*args, **kwargs):
            yield chunk


def new_router() -> litellm.Router:
    litellm.custom_provider_map = [{"provider": "stand-in", "custom_handler": StandIn()}]
    deployments = [
        {"model_name": group, "litellm_params": {"model": f"stand-in/{name}"}, "model_info": {"id": name}}
        for group, names in GROUPS.items()
        for name in names
    ]
    return litellm.Router(
        model_list=deployments,
        num_retries=2,
        retry_after=0,
        allowed_fails=0,
        cooldown_time=3600,
        fallbacks=[{"broken": ["chat"]}, {"torn": ["chat"]}, {"old": ["chat"]}],
    )


async def calls(router: litellm.Router) -> None:
    for _ in range(4):
        for group in ("chat", "mixed", "broken"):
            await router.acompletion(model=group, messages=PROMPT)
        for group in ("chat", "torn"):
            async for _ in await router.acompletion(model=group, messages=PROMPT, stream=True):
                pass


def calls_without_asyncio(router: litellm.Router) -> None:
    for _ in range(4):
        for group in ("mixed", "old"):
            router.completion(model=group, messages=PROMPT)
        for _ in router.completion(model="chat", messages=PROMPT, stream=True):
            pass


async def settle(feedback: FeedbackQueue) -> None:
    async with asyncio.timeout(60):
        while feedback.report().recorded < len(called):  # noqa: ASYNC110 - the queue has a thread
            await asyncio.sleep(0.01)


async def main(url: str, name: str) -> None:
    with Wager(url) as wager, FeedbackQueue(wager) as feedback:
        wager.create_model(name, labels=[*chain(*GROUPS.values())], features={"kind": "named"})
        async with AsyncWager(url) as async_wager:
            router = new_router()
            strategy = WagerStrategy(
                router, wager, async_wager, feedback, model=name, default="good", judge=lambda *_: 0.75
            )
            router.register_plugin(strategy)
            litellm.callbacks.append(strategy)
            await calls(router)
            await asyncio.to_thread(calls_without_asyncio, router)
            await settle(feedback)
    sys.stdout.write(json.dumps(called))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
