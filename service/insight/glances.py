"""A model in a list, with the essence of its statistics."""

from service.errors import NewerVersionError, StoreCorruptError
from service.insight.answers import latest_reward, mean_answer, metric_of, served_reward
from service.insight.curves import sparkline
from service.insight.estimates import UNKNOWN
from service.insight.figures import counted_model, fold_lag, open_predictions
from service.insight.subject import subject_of_summary
from service.insight.verdicts import verdict_of
from service.schemas.models import ModelSummary
from service.schemas.reports.statistics import ModelGlance
from service.store.base import ModelStats

_MOST_POINTS = 32


def glance_of(summary: ModelSummary, stats: ModelStats, now: float) -> ModelGlance:
    """Return a model in a list; without its rewards if its statistics cannot be read.

    Args:
        summary: the model.
        stats: its counters and encoded statistics.
        now: seconds since the epoch.
    """
    glance = ModelGlance(
        name=summary.name,
        algorithm=summary.learner["algorithm"],
        label_count=summary.label_count,
        rounds=stats.round_count,
        predictions=stats.predictions,
        open_predictions=None,
        fold_lag=fold_lag(stats),
        metric="accuracy",
        reward=mean_answer(UNKNOWN),
        latest=mean_answer(UNKNOWN),
        verdict=None,
        spark=[],
    )
    try:
        model = counted_model(stats)
    except (StoreCorruptError, NewerVersionError):
        return glance
    glance.open_predictions = open_predictions(model, now)
    glance.metric = metric_of(model.statistics)
    glance.reward, glance.latest = (
        mean_answer(served_reward(model.statistics)),
        mean_answer(latest_reward(model.statistics)),
    )
    glance.verdict = verdict_of(subject_of_summary(summary), model.statistics).verdict
    glance.spark = sparkline(model.statistics, _MOST_POINTS)
    return glance
