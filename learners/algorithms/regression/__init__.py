"""Contextual bandits on regression oracles: the probability of being right is predicted for each label."""
