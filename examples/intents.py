"""Routing of texts to teams by their words: the model learns from right or wrong only.

.venv/bin/python examples/intents.py [--url URL] [--rounds N] [--seed N]
"""

import itertools
import random
import re
import uuid
from collections.abc import Sequence
from typing import Any

from wager_client import Wager

TEXTS = {
    "billing": [
        "I was charged twice this month",
        "where is my invoice for March",
        "please refund the payment",
        "my card was declined",
        "how do I change my billing address",
        "the price on the bill is wrong",
    ],
    "delivery": [
        "my parcel has not arrived",
        "when will the package be delivered",
        "the driver left the box at the wrong door",
        "track my shipment please",
        "the delivery is two weeks late",
        "can you ship to Norway",
    ],
    "account": [
        "I forgot my password",
        "I cannot log in since yesterday",
        "please delete my account",
        "how do I change my email",
        "the login code never comes",
        "someone else uses my account",
    ],
    "product": [
        "the screen is broken",
        "does it work with a Mac",
        "the battery is empty after an hour",
        "which size fits me",
        "it makes a strange noise",
        "is the screen made of glass",
    ],
}
"""Short texts of each team. Some words, such as `change`, belong to several."""


def features_of(text: str) -> dict[str, Any]:
    """Return the context of a text: its words, and pairs of words. A list of strings is one feature for each."""
    words = re.findall(r"\w+", text.lower())
    return {"words": words, "pairs": [f"{one} {two}" for one, two in itertools.pairwise(words)]}


def run(wager: Wager, rounds: int, seed: int) -> list[float]:
    """Route texts, and print the share that goes to the right team; return it for each tenth of the rounds."""
    inbox = random.Random(seed)
    name = f"intents-{uuid.uuid4().hex[:8]}"
    wager.create_model(name, labels=list(TEXTS), features={"kind": "named"})
    right: list[bool] = []
    for _ in range(rounds):
        team = inbox.choice(list(TEXTS))
        prediction = wager.predict(name, features_of(inbox.choice(TEXTS[team])), default="account")
        right.append(prediction.label == team)
        wager.feedback(prediction, correct=right[-1])  # a team says "mine" or "not mine"
    curve = [share(right[rounds * i // 10 : rounds * (i + 1) // 10]) for i in range(10)]
    print("right, by tenth:  " + "  ".join(f"{each:.0%}" for each in curve))
    _explain(wager, name, "where is the refund for the parcel")
    return curve


def share(right: Sequence[bool]) -> float:
    """Return the share that is right."""
    return sum(right) / max(1, len(right))


def _explain(wager: Wager, name: str, text: str) -> None:
    """Print which words speak for which team."""
    found = wager.explain(name, features_of(text))
    print(f"\n{text!r}: " + ", ".join(f"{team} {p:.0%}" for team, p in (found.distribution or {}).items()))
    for feature in found.features:
        added = feature["contributions"] or {}
        best = max(added, key=lambda team: added[team], default=None)
        if best is not None and added[best] > 0.05:
            print(f"  {feature['name']:20} speaks for {best} ({added[best]:+.2f})")


if __name__ == "__main__":
    from example_service import main

    main(run, 2000)
