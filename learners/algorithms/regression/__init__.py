"""Contextual bandits on regression oracles, which predict for each label the probability that it is right."""
