"""Recommendations of products with features: one model for all products, also for those that it has never seen.

.venv/bin/python examples/recommendations.py [--url URL] [--rounds N] [--seed N]
"""

import random
import uuid
from typing import Any, NamedTuple

from wager_client import Wager

TASTES = {"runner": "shoes", "cook": "kitchen", "reader": "books"}
"""Which category each kind of user likes."""

PRODUCTS: list[dict[str, Any]] = [
    {"id": "trail-shoe", "features": {"category": "shoes", "price": 1.2}},
    {"id": "sandal", "features": {"category": "shoes", "price": 0.4}},
    {"id": "pan", "features": {"category": "kitchen", "price": 0.6}},
    {"id": "knife", "features": {"category": "kitchen", "price": 1.1}},
    {"id": "novel", "features": {"category": "books", "price": 0.2}},
    {"id": "atlas", "features": {"category": "books", "price": 0.9}},
]
NEW: list[dict[str, Any]] = [
    {"id": "racing-flat", "features": {"category": "shoes", "price": 0.7}},
    {"id": "cookbook", "features": {"category": "books", "price": 0.5}},
]
"""Products that appear in the last quarter, without a change of the model."""


class Sales(NamedTuple):
    """What was sold."""

    by_quarter: list[float]  # the share of visits with a sale
    expected_at_random: float


def run(wager: Wager, rounds: int, seed: int) -> Sales:
    """Recommend products, and print how often users buy; return the shares."""
    visits = random.Random(seed)
    name = f"products-{uuid.uuid4().hex[:8]}"
    wager.create_model(name, features={"kind": "named"}, actions={"features": {"kind": "named"}})
    sold: list[list[bool]] = [[], [], [], []]
    for i in range(rounds):
        quarter = 4 * i // rounds
        stock = [*PRODUCTS, *NEW] if quarter == 3 else PRODUCTS
        kind = visits.choice(list(TASTES))
        prediction = wager.predict(name, {"user": {"kind": kind}}, actions=stock)
        product = next(each for each in stock if each["id"] == prediction.label)
        sold[quarter].append(visits.random() < _interest(kind, product))
        wager.feedback(prediction, reward=float(sold[quarter][-1]))
    shares = [sum(each) / max(1, len(each)) for each in sold]
    random_share = sum(_interest(kind, each) for kind in TASTES for each in PRODUCTS) / len(TASTES) / len(PRODUCTS)
    print("sales, by quarter: " + "  ".join(f"{each:.0%}" for each in shares) + f"   at random: {random_share:.0%}")
    _show_new(wager, name)
    return Sales(shares, random_share)


def _interest(kind: str, product: dict[str, Any]) -> float:
    """Return the probability that a user buys a product."""
    return 0.6 if product["features"]["category"] == TASTES[kind] else 0.05


def _show_new(wager: Wager, name: str) -> None:
    """Print the probabilities of products that the model has never seen."""
    stock = [
        {"id": "boot", "features": {"category": "shoes", "price": 1.0}},
        {"id": "wok", "features": {"category": "kitchen", "price": 1.0}},
        {"id": "poems", "features": {"category": "books", "price": 1.0}},
    ]
    for kind in TASTES:
        found = wager.explain(name, {"user": {"kind": kind}}, actions=stock).distribution or {}
        print(f"  a {kind:7} gets " + ", ".join(f"{product} {p:.0%}" for product, p in found.items()))


if __name__ == "__main__":
    from example_service import main

    main(run, 2000)
