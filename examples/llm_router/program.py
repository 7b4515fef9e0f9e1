"""An LLM router within a budget: stand-ins for three models answer prompts through LiteLLM, and Wager chooses.

Needs a running service (`make serve`), and the environment of `make examples`:

build/examples/bin/python examples/llm_router/program.py [--url URL] [--budget COST] [--data FOLDER]
"""

import argparse
import asyncio
import gzip
import json
import os
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the import asks the network for prices

import litellm
from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

from llm_router.strategy import WagerStrategy
from wager_client import AsyncWager, FeedbackQueue, Wager, WagerError

PHASES = 5
QUALITY = {  # the mean score by task, of the small, the medium and the large model
    "chat": (0.9, 0.9, 0.95),
    "code": (0.3, 0.85, 0.95),
    "proof": (0.1, 0.2, 0.9),
}
TEXTS = {
    "chat": "Tell me something nice about the number {}.",
    "code": "What is wrong here?\n```\ndef add(a, b):\n    return a - b + {}\n```",
    "proof": "Prove: for every n > {}, 2 + 4 + 6 + ... + 2n = n (n + 1). Do not use induction, and name each lemma.",
}


class Prompt(NamedTuple):
    """A prompt, with the score that each model's answer would get."""

    text: str
    task: str
    scores: Mapping[str, float]


class Prompts(NamedTuple):
    """Prompts in order, and the price of each model's answer; the dearest costs 1."""

    prompts: Sequence[Prompt]
    costs: Mapping[str, float]


class StandIn(litellm.CustomLLM):
    """Answers instead of the real models."""

    def completion(self, model: str, messages: Any, *_: Any, **__: Any) -> Any:
        """Return an answer at once."""
        return litellm.mock_completion(model=model, messages=messages, mock_response=f"{model} answers")

    async def acompletion(self, model: str, messages: Any, *_: Any, **__: Any) -> Any:
        """Return an answer at once."""
        return self.completion(model, messages)


def simulated(n: int, seed: int) -> Prompts:
    """Return n prompts of three tasks; their scores are 0 or 1."""
    users, costs = random.Random(seed), {"small": 0.02, "medium": 0.2, "large": 1.0}
    prompts = []
    for number in range(n):
        task = users.choice(list(QUALITY))
        scores = {name: float(users.random() < mean) for name, mean in zip(costs, QUALITY[task], strict=True)}
        prompts.append(Prompt(TEXTS[task].format(number), task, scores))
    return Prompts(prompts, costs)


def scored(folder: Path, n: int, seed: int) -> Prompts:
    """Return up to n prompts of `paretobandit_k4.jsonl.gz`, with scores and mean prices of four models."""
    with gzip.open(folder / "paretobandit_k4.jsonl.gz") as file:
        lines = [json.loads(line) for line in file]
    names = ("llama-3.1-8b", "mistral-large", "gemini-2.5-pro", "gemini-2.5-flash")
    spent = [sum(line["costs"][k] for line in lines) for k in range(len(names))]
    prompts = [Prompt(one["prompt"], one["source"], dict(zip(names, one["rewards"], strict=True))) for one in lines]
    random.Random(seed).shuffle(prompts)
    return Prompts(prompts[:n], {name: cost / max(spent) for name, cost in zip(names, spent, strict=True)})


def router_of(names: Sequence[str]) -> litellm.Router:
    """Return a router whose model group `chat` has one stand-in for each name."""
    litellm.custom_provider_map = [{"provider": "stand-in", "custom_handler": StandIn()}]
    deployments = [
        {"model_name": "chat", "litellm_params": {"model": f"stand-in/{name}"}, "model_info": {"id": name}}
        for name in names
    ]
    return litellm.Router(model_list=deployments)


async def answers(router: litellm.Router, prompts: Sequence[Prompt]) -> AsyncIterator[str]:
    """Send prompts, and yield the deployment that answered each."""
    for prompt in prompts:
        messages = [{"role": "user", "content": prompt.text}]
        response = await router.acompletion(model="chat", messages=messages, metadata={"task": prompt.task})
        yield response._hidden_params["model_id"]  # noqa: SLF001 - LiteLLM's documented place for it


def shown(phase: str, prompts: Sequence[Prompt], chosen: Sequence[str], costs: Mapping[str, float]) -> str:
    """Return a line with the mean score and cost of some answers, and the share of each model."""
    score = sum(prompt.scores[name] for prompt, name in zip(prompts, chosen, strict=True)) / max(1, len(chosen))
    cost = sum(costs[name] for name in chosen) / max(1, len(chosen))
    counts = Counter(chosen)
    shares = "  ".join(f"{name} {counts[name] / max(1, len(chosen)):4.0%}" for name in costs)
    return f"{phase:14} quality {score:.3f}  cost {cost:.3f}  {shares}"


async def run(url: str | None, given: Prompts, budget: float) -> None:
    """Route all prompts, and print each phase, the whole, and each model alone."""
    prompts, costs = given
    default, judged = min(costs, key=costs.__getitem__), []
    scores = {prompt.text: prompt.scores for prompt in prompts}

    def judge(call: Mapping[str, Any], _: Any) -> float:
        judged.append(scores[call["messages"][-1]["content"]][call["litellm_params"]["model_info"]["id"]])
        return judged[-1]

    with Wager(url, timeout=2.0) as wager, FeedbackQueue(wager) as feedback:
        model, router = new_model(wager, costs, budget), router_of(list(costs))
        async with AsyncWager(url, timeout=2.0, max_retries=0) as async_wager:
            strategy = WagerStrategy(router, wager, async_wager, feedback, model=model, default=default, judge=judge)
            router.register_plugin(strategy)
            litellm.callbacks.append(strategy)
            chosen = [name async for name in answers(router, prompts)]
            while len(judged) < len(chosen):  # noqa: ASYNC110 - LiteLLM calls back when it has time, and does not tell
                await asyncio.sleep(0.01)
            await GLOBAL_LOGGING_WORKER.flush()
        print(f"model {model}, budget {budget:g}; defaults: {async_wager.counts.defaults}")
    for phase in range(PHASES):
        part = slice(len(prompts) * phase // PHASES, len(prompts) * (phase + 1) // PHASES)
        print(shown(f"phase {phase + 1}", prompts[part], chosen[part], costs))
    print(shown("all", prompts, chosen, costs))
    for name in costs:
        print(shown(f"only {name}", prompts, [name] * len(prompts), costs))


def new_model(wager: Wager, costs: Mapping[str, float], budget: float) -> str:
    """Create the Wager model, and return its name. Without a service, return the name of none."""
    name = f"llm-router-{uuid.uuid4().hex[:8]}"
    try:
        wager.create_model(
            name,
            labels=list(costs),
            features={"kind": "named"},
            costs=dict(costs),
            budget={"cost": budget},
            on_expiry="incorrect",
            window_seconds=600,
            learn="on_arrival",
        )
    except WagerError as error:
        if not error.is_away:
            raise
    return name


def main() -> None:
    """Run with the options of the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", help="URL of the service; WAGER_API_KEY has its key.")
    options.add_argument("--rounds", type=int, default=2000, help="Default: 2000.")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--budget", type=float, default=0.35, help="Mean cost of an answer. Default: 0.35.")
    options.add_argument("--data", type=Path, help="Folder with paretobandit_k4.jsonl.gz; default: simulated prompts.")
    given = options.parse_args()
    read = simulated(given.rounds, given.seed) if given.data is None else scored(given.data, given.rounds, given.seed)
    asyncio.run(run(given.url, read, given.budget))


if __name__ == "__main__":
    main()
