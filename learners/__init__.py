"""Online bandit learners as pure functions of numbers: no clock, no I/O, no global randomness.

Start with `learners.base`, which states what a learner is; each algorithm is one file, named after it;
`learners.registry` lists them by the name that users write.
"""
