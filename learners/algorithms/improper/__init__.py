"""Improper learners, whose predictions no single linear model makes: mixtures, boosting, experts."""
