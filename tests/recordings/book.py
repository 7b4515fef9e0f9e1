"""All chapters."""

from tests.recordings.chapters import (
    actions,
    features,
    files,
    hyperparameters,
    labels,
    learners,
    operations,
    policies,
    refused,
    shadows,
    troubles,
    webhooks,
)
from tests.recordings.playing import Chapter

_TOPICS = (
    learners,
    hyperparameters,
    actions,
    features,
    policies,
    labels,
    files,
    shadows,
    webhooks,
    operations,
    refused,
    troubles,
)

CHAPTERS: dict[str, Chapter] = {chapter.title: chapter for topic in _TOPICS for chapter in topic.CHAPTERS}
"""All chapters, by title."""
