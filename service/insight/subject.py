"""What the statistics of a model need to know about its definition."""

from typing import NamedTuple

from learners.base import AnyLearner
from service.models.learner_choice import choose_action_learner, choose_learner
from service.models.model import Model
from service.replicas.sums.label_sums import MOST_LABELS
from service.schemas.models import LearnerChoice, ModelSummary


class Subject(NamedTuple):
    """A model whose statistics are read."""

    learner: AnyLearner
    labels: tuple[str, ...]  # the first labels by number, as many as are counted individually; may be unknown
    has_actions: bool
    has_contexts: bool

    @property
    def explores(self) -> bool:
        """Whether the learner needs exploration: it does not if all feedback has the true label."""
        return not self.learner.needs_true_label

    def name_of(self, label: int) -> str:
        """Return a label by its number."""
        return self.labels[label] if label < len(self.labels) else f"number {label}"


def subject_of(model: Model) -> Subject:
    """Return the subject of a model."""
    definition = model.definition
    labels = tuple(definition.labels[:MOST_LABELS])
    return Subject(model.learner, labels, definition.actions is not None, definition.features.size > 0)


def subject_of_summary(summary: ModelSummary) -> Subject:
    """Return the subject of a listed model, whose labels are unknown."""
    choice = LearnerChoice(**summary.learner)
    if summary.actions is None:
        learner: AnyLearner = choose_learner(choice, summary.label_count, summary.features)
    else:
        learner = choose_action_learner(choice, summary.actions, summary.features)
    return Subject(learner, (), summary.actions is not None, summary.features.size > 0)
