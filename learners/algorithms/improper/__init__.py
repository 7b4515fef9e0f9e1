"""Predictions that no single linear model makes: mixtures, boosting, experts."""
