"""An LLM router: quality against cost for several weights of costs and budgets, on judged prompts with prices.

Each prompt is a round, in an order that the seed fixes. Its context is the vector of `routing_vectors`, its reward the
judge's score of the chosen model's answer, which arrives `DELAY` rounds later, and its cost the model's mean price, as
known in advance, relative to the dearest model's.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.data.routing import prices_of, routing_vectors
from benchmarks.papers.pages import write_page
from benchmarks.papers.summary import markdown
from learners.base import NO_LABEL, Contexts, FloatArray, IntArray, Prices, Problem, Rounds, every_label
from learners.mathematics.exploration import draw_unchecked
from learners.mathematics.pacing import Budget, new_pacing, pace, paced_weight
from learners.registry import RECOMMENDED

DELAY = 50
_CALLS = 1_000.0  # per million tokens, for peers that want the price of tokens
WEIGHTS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
BUDGETS = (0.02, 0.05, 0.1, 0.2)
MODELS = ("llama-3.1-8b", "mistral-large", "gemini-2.5-pro", "gemini-2.5-flash")


class Prompts(NamedTuple):
    """n prompts, in the order of one run."""

    contexts: FloatArray  # (n, d)
    rewards: FloatArray  # (n, K)
    costs: FloatArray  # (K,), relative to the dearest
    dollars: float  # the mean price of the dearest


class Spent(NamedTuple):
    """The means of one run."""

    reward: float
    cost: float


Router = Callable[[Prompts, np.random.Generator], IntArray]
"""Returns the chosen model of each prompt, (n,)."""


def read(path: Path) -> Prompts:
    """Read the prompts of `paretobandit_k4.jsonl.gz`."""
    examples, prices = routing_vectors(path), prices_of(path).mean(axis=0)
    contexts = examples.contexts.values.reshape(examples.contexts.n, -1)
    return Prompts(contexts, np.asarray(examples.rewards), prices / prices.max(), float(prices.max()))


def wager(weight: float | None, budget: float | None) -> Router:
    """Return the default learner, with a weight of costs or within a budget."""
    return lambda prompts, rng: _played(prompts, rng, weight, budget)


def _played(prompts: Prompts, rng: np.random.Generator, weight: float | None, budget: float | None) -> IntArray:
    (n, K), prices = prompts.rewards.shape, prompts.costs
    learner: Any = RECOMMENDED(problem=Problem(K, prompts.contexts.shape[1]))
    state, pacing, uniforms = learner.init(), new_pacing(), rng.random((n,))
    labels, p, used = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
    rows = [Contexts.dense(row) for row in prompts.contexts]
    for t in range(n):
        if (f := t - DELAY) >= 0:
            one, k = slice(f, f + 1), labels[f]
            reward = np.array([prompts.rewards[f, k]])
            nothing = np.full(1, NO_LABEL), np.empty((1, 0)), np.zeros(1)
            rounds = Rounds(rows[f], labels[one], p[one], reward == 1.0, *nothing, reward, every_label(1))
            state = learner.fold_unchecked(state, rounds)
            if budget is not None:
                pace(pacing, Budget(budget), prices[k], float(used[f]), float(min(f, DELAY)))
        used[t] = (weight or 0.0) if budget is None else paced_weight(pacing, Budget(budget))
        weighed = Prices(used[t : t + 1], prices.reshape(1, -1))
        distribution = learner.decide_unchecked(state, rows[t], None, weighed).distributions
        drawn, propensity, _ = draw_unchecked(distribution, uniforms[t : t + 1])
        labels[t], p[t] = drawn[0], propensity[0]
    return labels


def always(model: int) -> Router:
    """Return the router that chooses one model."""
    return lambda prompts, _: np.full(len(prompts.rewards), model)


def uniform(prompts: Prompts, rng: np.random.Generator) -> IntArray:
    """Choose uniformly."""
    return rng.integers(0, len(prompts.costs), len(prompts.rewards))


def paretobandit(penalty: float, budget: float | None) -> Router:
    """Return ParetoBandit's router with its defaults, without priors; raises `ImportError` if it is not installed."""
    peer: Any = import_module("pareto_bandit")
    pacer_of = import_module("pareto_bandit.budget_pacer").BudgetPacer

    def play(prompts: Prompts, rng: np.random.Generator) -> IntArray:
        n = len(prompts.rewards)
        registry = {
            str(k): {"input_cost_per_m": price * _CALLS, "output_cost_per_m": price * _CALLS}
            for k, price in enumerate((prompts.costs * prompts.dollars).tolist())
        }
        pacer = None if budget is None else pacer_of(budget * prompts.dollars)
        service = peer.FeatureService.for_precomputed(prompts.contexts.shape[1])
        router = peer.BanditRouter.create(
            registry,
            priors="none",
            feature_service=service,
            cost_penalty=penalty,
            budget_pacer=pacer,
            bandit_seed=int(rng.integers(2**31)),
        )
        labels, ids = np.zeros(n, np.int64), [""] * n
        for t in range(n):
            if (f := t - DELAY) >= 0:
                router.process_feedback(ids[f], float(prompts.rewards[f, labels[f]]))
                if pacer is not None:
                    pacer.observe(float(prompts.costs[labels[f]] * prompts.dollars))
            chosen, log = router.route(prompts.contexts[t])
            labels[t], ids[t] = int(chosen), log.request_id
        return labels

    return play


def spent(router: Router, prompts: Prompts, seed: int) -> Spent:
    """Return what a router earns and costs, on the prompts in the order of a seed."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(prompts.rewards))
    mine = prompts._replace(contexts=prompts.contexts[order], rewards=prompts.rewards[order])
    labels = router(mine, rng)
    return Spent(float(mine.rewards[np.arange(len(order)), labels].mean()), float(mine.costs[labels].mean()))


def rows_of(name: str, router: Router, prompts: Prompts, seeds: int, budget: float | None = None) -> list[str]:
    """Return a row of the table."""
    found = np.array([spent(router, prompts, seed) for seed in range(seeds)])
    (reward, cost), (of_reward, of_cost) = found.mean(axis=0), found.std(axis=0)
    kept = "" if budget is None else f"{cost / budget - 1.0:+.1%}"
    return [name, f"{reward:.4f} ({of_reward:.4f})", f"{cost:.4f} ({of_cost:.4f})", kept]


def report(path: Path, seeds: int, pages: Path) -> None:
    """Play all routers, and write the page `routing`."""
    prompts = read(path)
    table = [rows_of(f"always {name}", always(k), prompts, 1) for k, name in enumerate(MODELS)]
    table.append(rows_of("uniform", uniform, prompts, seeds))
    table += [rows_of(f"fastcb, λ = {w:g}", wager(w, None), prompts, seeds) for w in WEIGHTS]
    table += [rows_of(f"fastcb, budget {b:g}", wager(None, b), prompts, seeds, b) for b in BUDGETS]
    table += _peers(prompts, seeds)
    introduction = (
        f"{len(prompts.rewards):,} prompts, each once, with the scores of a judge and the prices of four models; the "
        f"feedback comes {DELAY} rounds late; mean (std) over {seeds} seeds. A cost of 1 is the mean price of the "
        "dearest model. The last column compares the mean cost with the budget. ParetoBandit 0.1.1 starts without its "
        "priors, as fastcb does."
    )
    body = markdown(["router", "quality", "cost", "over budget"], table)
    write_page(pages, "routing", "An LLM router", introduction, f"routing --seeds {seeds}", body)


def _peers(prompts: Prompts, seeds: int) -> Sequence[list[str]]:
    try:
        plain = [(f"paretobandit, penalty {p:g}", paretobandit(p, None), None) for p in (0.0, 0.003, 0.01, 0.03)]
        paced = [(f"paretobandit, budget {b:g}", paretobandit(0.0, b), b) for b in BUDGETS]
    except ImportError:
        return [["paretobandit (not installed)", "", "", ""]]
    return [rows_of(name, router, prompts, seeds, budget) for name, router, budget in plain + paced]
