"""A model's policies for feedback and expired predictions: checks, and their stored form."""

from collections.abc import Collection, Mapping

from learners.base import AnyLearner
from learners.registry import ALL_LEARNERS
from service.error_messages.values import joined, shown
from service.errors import ClosingPolicyError, InvalidInputError, MissingFieldError, RewardNotAcceptedError
from service.models.flags import value_warnings
from service.schemas.models import ExpiryReward, ModelDefinition
from service.store.stored_models import StoredPolicies

FORGET_AFTER = 3600.0  # seconds to keep a prediction after its window, to distinguish late feedback from unknown ids
KEPT_FOR_OUTAGES = 7 * 86_400.0  # seconds to keep an expired prediction that must be closed, in case no worker runs


def reward_refused(learner: AnyLearner, reward: float, field: str) -> InvalidInputError:
    """Return the error for a reward that the learner does not accept."""
    others = joined(sorted(name for name, cls in ALL_LEARNERS.items() if cls.accepts_rewards), "and")
    detail = f"got {shown(reward)}; {learner.algorithm} accepts no rewards; send correct, or use one of {others}"
    return RewardNotAcceptedError(detail, field)


def learn_implied(given: Mapping[str, object], before: object = "drop") -> dict[str, object]:
    """Return the `learn` policy implied by a changed `on_expiry`; empty if `learn` is given or nothing changes.

    `given` are the policies of the request, and `before` is the `on_expiry` before it, all as JSON values. Raises
    `MissingFieldError` if `on_expiry` changes from "drop" and no window is given.
    """
    after = given.get("on_expiry", before)
    if before == "drop" and after != "drop" and "window_seconds" not in given:
        detail = (
            'missing; must be given if on_expiry is not "drop": choose the time within which nearly all feedback '
            "arrives, such as 95 % of the clicks (docs/guides/delays.md says how to measure it)"
        )
        raise MissingFieldError(detail, "window_seconds")
    if after == before or "learn" in given:
        return {}
    return {"learn": "on_arrival" if after == "drop" else "at_window_close"}


def policy_warnings(definition: ModelDefinition, retired: Collection[str]) -> list[str]:
    """Return one sentence for each policy that is likely wrong, beginning with its name."""
    found = [*_silence_warnings(definition), *value_warnings(definition, retired)]
    if definition.on_expiry == "drop" or definition.learn == "at_window_close":
        return found
    return [
        'learn: "on_arrival" counts feedback at once, but silence only after the window. With many open predictions, '
        'the model swings from label to label; choose "at_window_close".',
        *found,
    ]


def _silence_warnings(definition: ModelDefinition) -> list[str]:
    if definition.reward != "clicks" or definition.on_expiry != "drop":
        return []
    return [
        'on_expiry: "drop" makes no round of silence. If clients report only clicks, every round has one, so the click '
        'rate is near 1 and the model learns nothing; choose "incorrect".'
    ]


def keep_seconds(definition: ModelDefinition) -> float:
    """Return the seconds for which the store keeps a prediction.

    A prediction that must be closed is kept longer, so that it survives an outage of the workers.
    """
    return definition.window_seconds + (KEPT_FOR_OUTAGES if closes(definition) else FORGET_AFTER)


def stored_policies(definition: ModelDefinition) -> StoredPolicies:
    """Return the policies that the store applies itself."""
    retention = "" if definition.retain_seconds is None else repr(definition.retain_seconds)
    bulk = "1" if definition.ofrep.bulk else ""
    return StoredPolicies(closing_rule(definition), retention, resting_rule(definition), bulk)


def closes(definition: ModelDefinition) -> bool:
    """Return whether the store closes expired predictions."""
    return definition.on_expiry != "drop" or definition.learn != "on_arrival"


def closing_rule(definition: ModelDefinition) -> str:
    """Return the rule by which the store closes expired predictions; "" if it does not.

    The rule contains the window in seconds, the `learn` policy, and the reward of expired predictions or `drop`.
    """
    if not closes(definition):
        return ""
    reward = "drop" if definition.on_expiry == "drop" else "0.0"
    if isinstance(definition.on_expiry, ExpiryReward):
        reward = repr(float(definition.on_expiry.reward))
    return f"{definition.window_seconds!r} {definition.learn} {reward}"


def resting_rule(definition: ModelDefinition) -> str:
    """Return the rule for when `closing_rule` has become empty: predictions made before must still be closed."""
    return f"{definition.window_seconds!r} on_arrival drop"


def check_closing(definition: ModelDefinition, learner: AnyLearner) -> None:
    """Raise an error if the policies for expired predictions contradict each other or the learner."""
    on_expiry = definition.on_expiry
    got = f"got {shown(on_expiry.model_dump() if isinstance(on_expiry, ExpiryReward) else on_expiry)}"
    if closes(definition) and definition.late_feedback == "accept":
        if on_expiry == "drop":
            detail = 'got "at_window_close"; must be "on_arrival" if late_feedback is "accept"'
            raise ClosingPolicyError(detail, "learn")
        raise ClosingPolicyError(f'{got}; must be "drop" if late_feedback is "accept"', "on_expiry")
    if on_expiry == "drop":
        return
    if learner.needs_true_label:
        detail = f'{got}; must be "drop", as {learner.algorithm} needs the true label'
        raise ClosingPolicyError(detail, "on_expiry")
    if isinstance(on_expiry, ExpiryReward) and not learner.accepts_rewards:
        raise reward_refused(learner, on_expiry.reward, "on_expiry.reward")
