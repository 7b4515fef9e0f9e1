"""Off-policy evaluation: estimates another policy's mean reward from a log with propensities.

A policy is evaluated by sums over parts of the log, which merge for any split: `terms` computes the terms of each
round, `sums` adds them with their bootstrap, and `estimates` derives the values, the intervals and the warnings.
"""
