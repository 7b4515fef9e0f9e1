"""Off-policy evaluation: what another policy would have got, from a log with propensities.

A policy is evaluated by sums over parts of the log, which merge in any split: `terms` makes the terms of each round,
`sums` adds them with their bootstrap, and `estimates` reads the values, the intervals and the warnings.
"""
