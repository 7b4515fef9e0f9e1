"""Headlines that change while readers click: only clicks are reported, and silence counts when the window closes.

.venv/bin/python examples/headlines.py [--url URL] [--rounds N] [--seed N]
"""

import random
import time
import uuid
from collections import Counter
from typing import NamedTuple

from wager_client import FeedbackQueue, Prediction, ProblemError, Wager

CLICK_RATE = {"plain": 0.05, "question": 0.10, "number": 0.30, "video": 0.60}
"""How often readers click a headline. The model does not know it."""

PHASES = 4
VIDEO_FROM = 2
"""The phase in which a new headline takes the place of the worst one."""


class Phase(NamedTuple):
    """How often each headline was shown, and the clicks."""

    shown: Counter[str]
    clicks: int


def run(wager: Wager, rounds: int, seed: int) -> list[Phase]:
    """Show headlines in phases, and print how often each is shown; return the phases."""
    readers = random.Random(seed)
    name = f"headlines-{uuid.uuid4().hex[:8]}"
    wager.create_model(
        name,
        labels=["plain", "question", "number"],
        features={"kind": "named"},
        window_seconds=0.5,  # minutes, in a real site
        on_expiry="incorrect",  # no click within the window is a wrong answer; clicks count when it closes, too
    )
    print("phase   clicks   shown")
    phases = []
    with FeedbackQueue(wager) as clicks:
        for number in range(PHASES):
            if number == VIDEO_FROM:
                changes = {"labels": {"add": ["video"], "retire": ["plain"]}}
                wager.change_model(wager.get_model(name), changes)
                print("        'video' is added, 'plain' is retired")
            phases.append(_phase(wager, clicks, name, rounds // PHASES, readers))
            print(f"{number + 1:5} {phases[-1].clicks:8}   {dict(phases[-1].shown.most_common())}")
            _wait_for_windows(wager, name, sum(sum(phase.shown.values()) for phase in phases))
    return phases


def _phase(wager: Wager, clicks: FeedbackQueue, name: str, rounds: int, readers: random.Random) -> Phase:
    shown: Counter[str] = Counter()
    clicked = 0
    for prediction in _shown(wager, name, rounds, readers):
        label = str(prediction.label)
        shown[label] += 1
        if readers.random() < CLICK_RATE[label]:
            clicked += 1
            clicks.put(prediction, correct=True)  # nothing is sent for the others
    clicks.flush()
    return Phase(shown, clicked)


def _shown(wager: Wager, name: str, rounds: int, readers: random.Random) -> list[Prediction]:
    items = [{"context": {"hour": readers.randrange(24)}} for _ in range(rounds)]
    answers = wager.predict_batch(name, items)
    for answer in answers:
        if isinstance(answer, ProblemError):
            raise answer
    return [answer for answer in answers if isinstance(answer, Prediction)]


def _wait_for_windows(wager: Wager, name: str, rounds: int) -> None:
    """Wait until each prediction is a round: one window, and about a second."""
    while wager.get_model(name).rounds_seen < rounds:
        time.sleep(0.2)


if __name__ == "__main__":
    from example_service import main

    main(run, 2400)
