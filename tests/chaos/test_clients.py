"""The laws of the clients' checks: a record that agrees with the service has no violation, a doctored one has some."""

from typing import Any

import httpx2
import numpy as np
import pytest

from tests.chaos.evaluations import Asked, Evaluations, Value
from tests.chaos.fold import Fold
from tests.chaos.history import Answer, Operation, Verdict
from tests.chaos.hoarding import MAXIMUM, Hoarders
from tests.chaos.importing import import_violations, imported_round
from tests.chaos.keyring import LIMIT
from tests.chaos.logged import Line, count_violations, history_violations
from tests.chaos.metered import Metered
from tests.chaos.offers import Offers
from tests.chaos.recorder import replies_in
from tests.chaos.rivals import Rivals, shadow_violations
from tests.chaos.shadowing import Shadowing
from tests.chaos.spending import BUDGETS, weight_violations
from tests.chaos.unauthorized import CREDENTIALS, Unauthorized
from tests.chaos.world import Crowd
from tests.service.sample_models import GAPTRON, LABELS, SIZE, Replay, definition, distribution_of, prepared
from tests.simulation.pace import Pace

URL = "http://none"
MODEL = definition("forest", learner=GAPTRON, rounds_seen=40)
MODEL["features"] |= {"norm_bound": 1.0}


def _played(n: int = 40) -> list[Line]:
    """Return a log whose rounds saw 0 to 4 rounds less than there were, and its plain replay."""
    rng, lines, replay = np.random.default_rng(3), list[Line](), Replay(MODEL)
    for number in range(1, n + 1):
        seen, context = max(0, number - 1 - number % 5), tuple(rng.normal(size=SIZE).tolist())
        chances = distribution_of(replay.learner, replay.states[seen], prepared(MODEL, context))
        label, correct = int(rng.integers(4)), bool(rng.random() < 0.6)
        line = Line(number, f"p{number}", LABELS[label], chances[label], float(correct), seen, context)
        replay.add(line._asdict() | {"correct": correct, "true_label": None})
        lines.append(line)
    assert Fold(MODEL, lines).run() == []
    return lines


def test_the_fold_in_large_steps_is_the_plain_one() -> None:
    """It has the state of the fold of one round after another, to the bit."""
    lines, replay = _played(), Replay(MODEL)
    for line in lines:
        replay.add(line._asdict() | {"correct": line.reward == 1.0, "true_label": None})
    fold = Fold(MODEL, lines)
    assert fold.run() == []
    for context in np.random.default_rng(4).normal(size=(5, SIZE)).tolist():
        assert fold.distribution(context) == replay.distribution(context)


@pytest.mark.parametrize(
    "doctored", [{"propensity": 0.3}, {"rounds_seen": 0}, {"rounds_seen": 30}, {"rounds_seen": 39}]
)
def test_a_propensity_of_another_state_is_found(doctored: dict[str, Any]) -> None:
    """A round with another propensity, or with the number of rounds of another state, is named."""
    lines = _played()
    lines[29] = lines[29]._replace(**doctored)
    assert 30 in Fold(MODEL, lines).run()


def test_another_reward_is_another_state() -> None:
    """The state after a log with one other reward differs."""
    lines = _played()
    other = [*lines[:-1], lines[-1]._replace(reward=1.0 - lines[-1].reward)]
    folds = [Fold(MODEL, each) for each in (lines, other)]
    assert [each.run() for each in folds] == [[], []]
    assert folds[0].distribution([1.0] * SIZE) != folds[1].distribution([1.0] * SIZE)


def _recorded(lines: list[Line]) -> Crowd:
    crowd = Crowd(URL, 1)
    for line in lines:
        crowd.history.append(Operation(line.own, None, 0.0, 1.0, Answer(line.label, line.propensity)))
        crowd.history.append(Operation(line.own, line.reward, 2.0, 3.0, Verdict("recorded", line.reward, line.round)))
    return crowd


def test_a_log_that_differs_from_the_record_is_found() -> None:
    """Every difference between a log and what was acknowledged is found: lost, repeated, altered and strange rounds."""
    lines = _played()
    crowd, last = _recorded(lines), lines[-1]
    assert count_violations(MODEL, lines) + history_violations(crowd, lines) == []
    assert history_violations(crowd, lines[:-1]) == [f"no order explains {last.own}"]
    assert count_violations(MODEL, lines[:-1])
    assert count_violations(MODEL, [*lines, last._replace(round=41)])
    changes: list[dict[str, Any]] = [{"label": "other"}, {"propensity": 0.125}, {"reward": 0.5}, {"round": 41}]
    for change in changes:
        doctored = [*lines[:-1], last._replace(**change)]
        assert history_violations(crowd, doctored) == [f"no order explains {last.own}"]
    assert history_violations(crowd, [*lines, last._replace(own="x")]) == ["x is in the log, but was never made"]


def test_a_reward_is_not_another_one() -> None:
    """Rewards count as feedback: an equal one is a duplicate, another one a conflict."""
    lines = [_played()[0]._replace(reward=0.25)]
    crowd = _recorded(lines)
    crowd.history.append(Operation("p1", 0.5, 4.0, 5.0, Verdict("conflict")))
    assert history_violations(crowd, lines) == []
    crowd.history[-1] = Operation("p1", 0.5, 4.0, 5.0, Verdict("duplicate", 0.5, 1))
    assert history_violations(crowd, lines) == ["no order explains p1"]


def test_a_webhook_is_a_reply_to_feedback() -> None:
    """A recorded webhook has the round; an ignored one says why."""
    feedback = {"prediction_id": "m:p", "correct": True, "reward": 1.0, "status": "recorded", "round": 3}
    ignored = {"status": "ignored", "feedback": None, "reason": {"type": "urn:wager:problem:prediction-not-found"}}
    recorded = httpx2.Response(200, json={"status": "recorded", "feedback": feedback, "reason": None})
    assert replies_in(recorded, 1) == [Verdict("recorded", 1.0, 3)]
    assert replies_in(httpx2.Response(200, json=ignored), 1) == [Verdict("not-found")]


@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_a_refused_crowd_is_an_error(status: int) -> None:
    """Clients with a good key are never refused, and never see an internal error."""
    with pytest.raises(AssertionError):
        replies_in(httpx2.Response(status, json={"status": status}), 1)


def test_a_logged_action_that_was_not_offered_is_found() -> None:
    """The actions of a round are those of its request, and the propensity is the chance of the chosen one."""
    offers = Offers(URL, 1)
    offers._offered["p"] = ["a", "b"]
    actions = [{"id": "a", "probability": 0.25}, {"id": "b", "probability": 0.75}]
    line: dict[str, Any] = {
        "prediction_id": "offers:p",
        "label": "b",
        "propensity": 0.75,
        "action_count": 2,
        "actions": actions,
    }
    assert offers.line_violations(line) == []
    others: list[dict[str, Any]] = [
        {"propensity": 0.25},
        {"label": "a"},
        {"action_count": 3},
        {"actions": actions[::-1]},
    ]
    assert all(offers.line_violations(line | each) for each in others)


def test_an_unauthorized_client_must_be_refused_as_documented() -> None:
    """Anything but the documented refusal is a violation; so is 429 without Retry-After."""
    for name, (_, statuses) in CREDENTIALS.items():
        for status in (200, 401, 403, 404, 429, 500, 503):
            clients = Unauthorized(URL, 1)
            clients.judge(name, httpx2.Response(status, headers={"Retry-After": "3"}))
            assert bool(clients.wrong) == (status not in statuses | {503})
    clients = Unauthorized(URL, 1)
    clients.judge("an unknown key", httpx2.Response(429))
    assert clients.wrong


def test_a_limit_must_refuse_with_a_time_and_let_little_pass() -> None:
    """A limit that never refuses, refuses without a time, or lets more pass than its windows allow is a violation."""
    metered = Metered(URL, 1)
    assert metered.limit_violations()
    metered.refuse(httpx2.Response(429, headers={"Retry-After": "1"}, text="rate-limited"))
    assert metered.limit_violations() + metered.wrong == []
    metered.refuse(httpx2.Response(429, text="rate-limited"))
    assert metered.wrong
    metered.seconds, metered.passed = 10.0, 13 * LIMIT
    assert metered.limit_violations()


def test_a_shadow_with_other_numbers_is_found() -> None:
    """Every count of a shadow, its estimates, and the promotions must be those of the log."""
    lines = _played()
    truth, n = Shadowing(MODEL, lines), len(lines)
    comparison = {"served": sum(line.reward for line in lines) / n, "ips": truth.ips}
    counts: dict[str, Any] = {
        "rounds_seen": n,
        "compared_rounds": n,
        "skipped_rounds": 0,
        "restarts": 0,
        "since_round": 1,
        "lag": 0,
    }
    shadow: dict[str, Any] = {**counts, "comparison": comparison}
    assert shadow_violations(shadow, truth, lines) == []
    assert all(shadow_violations(shadow | {name: number + 1}, truth, lines) for name, number in counts.items())
    for name, number in comparison.items():
        assert shadow_violations(shadow | {"comparison": comparison | {name: number * 1.001}}, truth, lines)
    rivals = Rivals(URL, 1)
    rivals._promoted = ["gaptron"]
    model = {"learner": {"algorithm": "gaptron"}, "changes": {"count": 1}}
    assert rivals.change_violations(model) == []
    assert rivals.change_violations(model | {"changes": {"count": 2}})
    assert rivals.change_violations(model | {"learner": {"algorithm": "squarecb"}})


def _paid(n: int = 30) -> list[dict[str, Any]]:
    """Return the log of a model with a budget, which changes after every ten rounds; some are of the holdout."""
    paces, lines = [Pace()], list[dict[str, Any]]()
    for number in range(1, n + 1):
        seen, changes, is_held_out = number - 1 - (number - 1) % 3, (number - 1) // 10, number % 7 == 0
        budget, cost = BUDGETS[changes % 2], (1.0, 0.3, 0.0)[number % 3]
        weight = None if is_held_out else paces[seen].weight(budget)
        line = {"round": number, "rounds_seen": seen, "changes_seen": changes, "changes": changes, "cost": cost}
        lines.append(line | {"cost_weight": weight, "holdout": is_held_out})
        paces.append(paces[-1] if weight is None else paces[-1].after(budget, cost, weight, number - 1.0 - seen))
    return lines


@pytest.mark.parametrize("doctored", [{"cost_weight": 0.5}, {"cost_weight": None}, {"holdout": True}])
def test_another_weight_of_costs_is_found(doctored: dict[str, Any]) -> None:
    """A decision has the λ of the rounds and the budget that it saw."""
    lines = _paid()
    assert weight_violations(lines) == []
    lines[19] |= doctored
    assert any(wrong.startswith("round 20 ") for wrong in weight_violations(lines))


def test_other_costs_give_later_decisions_another_weight() -> None:
    """λ follows from the costs of the rounds before."""
    lines = _paid()
    for line in lines[:6]:
        line |= {"cost": 0.0}
    assert any(wrong.startswith("round 10 ") for wrong in weight_violations(lines))


def test_an_import_must_be_in_the_log_once_and_in_order() -> None:
    """A source whose rounds are missing, repeated, altered or out of order is found; predictions do not matter."""
    log = [imported_round("0", i) for i in range(5)] + [{"context": [0.5, -1.0, 0.0]}]
    assert import_violations({"0": 5, "1": 0}, log) == []
    for wrong in (log[1:], [*log, log[0]], log[::-1], [log[0] | {"correct": False}, *log[1:]]):
        assert import_violations({"0": 5, "1": 0}, wrong) == ["source 0 is not in the log as it was imported"]


def test_a_value_must_stick_to_what_was_asked() -> None:
    """An evaluation with another answer, or with the prediction of another evaluation, is a violation."""
    evaluations, value = Evaluations(URL, 1), Value("flag:a", "red", 0.25)
    asked = Asked("visitor", "FR", False, 1.0, 2)
    evaluations._confirmed = 1
    evaluations.stuck[asked] = [value, value]
    assert evaluations.stickiness_violations() == []
    evaluations.stuck[asked] = [value, value._replace(variant="blue")]
    assert evaluations.stickiness_violations()
    evaluations.stuck[asked] = [value, value]
    for other in (asked._replace(visitor="other"), asked._replace(changes=3), asked._replace(span=2.0)):
        evaluations.stuck[other] = [value]
        assert evaluations.stickiness_violations()
        del evaluations.stuck[other]


def test_other_bytes_of_open_predictions_are_found() -> None:
    """A count must be exact and within the maximum; below the maximum, no prediction may be refused."""
    hoarders = Hoarders(URL, 1)
    hoarders.each, hoarders.open = MAXIMUM / 4, ["a", "b"]
    assert hoarders.count_violation(MAXIMUM / 2) == ""
    assert hoarders.count_violation(MAXIMUM / 2 + 1)
    full = httpx2.Response(429, text="urn:wager:problem:open-predictions-full")
    hoarders.refuse(full)
    assert len(hoarders.wrong) == 1
    hoarders.open += ["c", "d"]
    hoarders.refuse(full)
    assert len(hoarders.wrong) == 1
    hoarders.open += ["e"]
    assert hoarders.count_violation(5 * MAXIMUM / 4)
