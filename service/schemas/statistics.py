"""Schemas of `GET /models/{name}/statistics` and `GET /statistics`."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from service.schemas.models import Answer, RewardMeaning, UnreadableModel

VerdictWord = Literal["exploring", "leaning", "converged", "at_chance", "dropped", "collapsed"]


class MeanAnswer(Answer):
    """A mean reward with its 95 % confidence interval."""

    mean: float | None
    """Null without a round."""
    low: float
    high: float
    rounds: float
    """The number of rounds in the mean; for a weighted mean, how many unweighted rounds would be worth as much."""


class AbstentionAnswer(Answer):
    """The answers served that abstained, without the holdout. They are neither right nor wrong."""

    rounds: int
    rate: float | None
    """The share of the rounds that abstained; null without a round."""
    cost: float
    """What they cost together, where a mistake costs 1: the sum of 1 - reward."""
    accuracy: MeanAnswer
    """The mean reward of the rounds that did not abstain."""


class VerdictAnswer(Answer):
    """How far the model has decided, whether it answers better than by chance, and whether it was better before."""

    verdict: VerdictWord
    reason: str


class LabelAnswer(Answer):
    """The rounds that answered one label."""

    label: str
    retired: bool
    rounds: int
    share: float
    """This label's share of all rounds that the details count."""
    latest_share: float
    """This label's share of the latest rounds."""
    reward: MeanAnswer
    """The mean reward of these rounds. The learner chose them, so labels are compared by `value`."""
    value: MeanAnswer
    """The estimated reward of always answering this label: SNIPS, or `reward` if the model has no features.
    It has no mean if
    the rounds that answered it represent less than half of those up to the last of them."""


class OtherLabelsAnswer(Answer):
    """The rounds of the labels that are not counted individually, together."""

    labels: int
    rounds: int
    share: float
    latest_share: float
    reward: MeanAnswer


class RuleAnswer(Answer):
    """One floor or cap, and the share of the latest rounds that it concerns."""

    rule: str
    """Such as `floor.control`."""
    share: float
    """What the rule demands: the least or the largest probability in each round."""
    latest_share: float | None
    """How many of the latest rounds answered the label or a label of the group, as a share. Null for actions, and
    without counted rounds."""


class CurvePoint(Answer):
    """The rewards of consecutive rounds."""

    last_round: int
    """The number of the last of these rounds, counted from 1."""
    rounds: int
    """The number of these rounds, without the holdout."""
    reward: MeanAnswer
    """The mean reward of these rounds."""
    cumulative: float | None
    """The mean reward of all rounds up to here."""
    uniform: float | None
    """The estimated reward of uniform draws over all rounds up to here; null if that over all rounds has no mean."""
    bound: float | None
    """The mean reward that the theorem proves up to here, if a comparator has no loss; null if it proves no number."""
    last_at: datetime
    """When the last of these rounds got its feedback or expired; for an imported round, when it was imported. Never
    earlier than at the point before."""


class CurveAnswer(Answer):
    """The rewards over the course of the log."""

    rounds_per_point: int
    points: list[CurvePoint]


class LatestAnswer(Answer):
    """The last 1,000 to 2,000 rounds, without the holdout."""

    rounds: int
    reward: MeanAnswer
    mean_propensity: float | None
    surprisal_nats: float | None


class ExplorationAnswer(Answer):
    """How certain the answers were."""

    mean_propensity: float | None
    share_at_most_5_percent: float | None
    """The share of rounds whose propensity is at most 0.05."""
    share_above_90_percent: float | None
    """The share of rounds whose propensity is above 0.9."""
    surprisal_nats: float | None
    """The mean of -ln p, which estimates the entropy of the distributions."""


class HistogramAnswer(Answer):
    """Counts of rounds by value."""

    bounds: list[float]
    """Upper bounds of the buckets, included."""
    counts: list[int]
    """One more than the bounds: the last bucket has no bound."""
    mean: float | None


class BoundAnswer(Answer):
    """The theorem's bound."""

    guarantee: str
    """What is proved for the model's settings, and its assumptions."""
    mistakes: float | None
    """The proven bound on the expected mistakes so far, beyond the comparator's loss. Abstentions count with their
    cost. Null if the bound is not a number."""
    note: str
    """What the number means, or why there is none."""


class CostAnswer(Answer):
    """What the answers of a model cost, and how much that weighs."""

    rounds: int
    """Rounds that the learner answered and whose answers have a cost."""
    mean: float | None
    """The mean cost of these rounds; null without any."""
    latest: float | None
    """The mean in which older rounds count less and less, by half after about 700 rounds."""
    holdout: float | None
    """The mean cost of the holdout's rounds; null without any."""
    cost_weight: float | None
    """λ as it is now: the reward that a cost of 1 is worth. A budget sets it. Null if the model has no costs."""
    budget: float | None
    """The mean cost to stay within; null without a budget."""


class DifferenceAnswer(Answer):
    """A difference with its 95 % confidence interval."""

    value: float
    low: float
    high: float | None
    """Null if the interval has no upper end, because the holdout's mean may be 0."""


class SampleRatioAnswer(Answer):
    """Whether the share of the holdout among the counted requests is the one that the model asks for."""

    expected: float
    """The `fraction` of the model's holdout."""
    observed: float | None
    """The share of the counted requests; null without any."""
    p_value: float
    """The probability, at most, of ever seeing so large a deviation by chance, however often it is looked at."""
    ok: bool
    """Whether the p-value is at least 0.001. If not, the two arms do not have the same kind of rounds."""
    note: Annotated[str | None, Field(examples=[None])]
    """What may have gone wrong; null if nothing has."""


class UpliftAnswer(Answer):
    """How much better the answers served are than the holdout's, over the same stretch of the log."""

    since_round: int
    """The first round that counts: the last change of the holdout came before it. Of the later rounds, those count
    whose predictions had seen this change."""
    served: MeanAnswer
    holdout: MeanAnswer
    difference: Annotated[DifferenceAnswer | None, Field(examples=[{"value": 0.03, "low": 0.01, "high": 0.05}])]
    """The mean served minus the holdout's; null until both have a round, and while silence does not count yet."""
    relative: Annotated[DifferenceAnswer | None, Field(examples=[{"value": 0.142, "low": 0.091, "high": 0.196}])]
    """The difference divided by the holdout's mean: 0.1 means 10 % better. Null if this mean is 0 or unknown."""
    chance_better: Annotated[float | None, Field(examples=[0.999])]
    """The probability that the mean served exceeds the holdout's, from 0.0001 to 0.9999; null until both have a
    round, if all rewards are equal, and while silence does not count yet."""
    sentence: str
    """What all this says, in plain words."""
    sample_ratio: SampleRatioAnswer


class StatisticsAnswer(Answer):
    """What the rounds of a model say. Workers publish the sums every few seconds."""

    model: str
    metric: RewardMeaning
    """What the mean reward is: as the model's `reward` says, or `value` if a reward was neither 0 nor 1, or if the
    learner may abstain."""
    verdict: VerdictAnswer
    rounds: int
    """The number of rounds in the log."""
    fold_lag: int
    """Rounds in the log that the following sums do not count yet."""
    since_round: int
    """The first round of the details: `reward`, `latest`, `labels`, `curve`, `holdout`. Above 1 if the
    statistics of the rounds before were damaged."""
    predictions: int
    open_predictions: int
    """Predictions in the window without feedback."""
    expired: int
    """Rounds made when the window ended without feedback."""
    damaged_rounds: int
    reward: MeanAnswer
    """The mean reward of the answers served, without the holdout."""
    abstention: Annotated[AbstentionAnswer | None, Field(examples=[None])]
    """Null if the learner always answers, and has always done so."""
    latest: LatestAnswer
    uniform: Annotated[MeanAnswer | None, Field(examples=[None])]
    """The estimated reward of uniform draws (SNIPS); null for answers that are not one of K labels. It has no mean if
    the rounds represent less than half of them, because the learner never drew some labels."""
    uniform_ips: float | None
    """The same by inverse propensity weighting, without self-normalization; null if `uniform` has no mean."""
    best_label: Annotated[str | None, Field(examples=[None])]
    """The label whose `value` is largest, among those with at least 10 effective rounds. Null if an active label
    without a value was answered more often, since that label may be the best."""
    labels: Annotated[list[LabelAnswer] | None, Field(examples=[[]])]
    """The first 256 labels by number. Null for answers that are not one of K labels."""
    other_labels: Annotated[OtherLabelsAnswer | None, Field(examples=[None])]
    labels_note: Annotated[str | None, Field(examples=[None])]
    """Why there are no labels, or not all."""
    rules: Annotated[list[RuleAnswer] | None, Field(examples=[None])] = None
    """The floors and caps of the model's rules, with the rounds that they concern; null without rules."""
    costs: Annotated[CostAnswer | None, Field(examples=[None])] = None
    """What the answers cost; null if neither model nor rounds have costs."""
    curve: CurveAnswer
    bound: BoundAnswer
    exploration: ExplorationAnswer
    propensities: HistogramAnswer
    delays: HistogramAnswer
    """Seconds from a prediction to its feedback."""
    holdout: Annotated[MeanAnswer | None, Field(examples=[None])]
    """The reward of the holdout's rounds; null without any."""
    uplift: Annotated[UpliftAnswer | None, Field(examples=[None])]
    """The comparison with the holdout that the model has now; null without one, and before its first round."""


class ModelOverview(Answer):
    """A model in a list, with a summary of its statistics."""

    name: str
    algorithm: str
    label_count: int
    """0 for a model with actions."""
    rounds: int
    predictions: int
    open_predictions: int | None
    """Null if the statistics cannot be read."""
    fold_lag: int
    metric: RewardMeaning
    """As in `GET /models/{name}/statistics`."""
    reward: MeanAnswer
    """The mean reward of the answers served, without the holdout."""
    latest: MeanAnswer
    """The mean reward of the last 1,000 to 2,000 rounds."""
    verdict: VerdictWord | None
    """Null if the statistics cannot be read."""
    attention: Annotated[str | None, Field(examples=[None])] = None
    """Why the model needs attention: damaged rounds, a verdict such as `dropped`, or statistics that lack many rounds;
    null if it needs none."""
    spark: list[float | None]
    """Mean rewards over the course of the log, at most 32."""


class StatisticsList(Answer):
    """A page of models."""

    models: list[ModelOverview | UnreadableModel]
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""
    total: int
    """The number of models that the API key allows and `search` finds, on all pages."""
    attention: int
    """The number of those that need attention, including unreadable ones."""
