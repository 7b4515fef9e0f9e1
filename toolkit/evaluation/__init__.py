"""Evaluation of policies from the log of a model: the command `wager evaluate`."""
