"""What the published statistics of a model mean: rewards with intervals, values of labels, verdicts."""
