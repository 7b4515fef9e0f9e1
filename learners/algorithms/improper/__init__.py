"""Improper learners, whose predictions are not those of a single linear model: mixtures, boosting, experts."""
