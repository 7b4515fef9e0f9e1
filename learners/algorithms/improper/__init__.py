"""Improper learners, which predict as no single linear model could: mixtures, boosting, experts."""
