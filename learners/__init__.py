"""Online bandit learners as pure functions of arrays: no clock, no network, no global random state.

Start with `learners.base`, which defines what a learner is. Each algorithm has one file in `learners.algorithms`, named
after its `algorithm` with underscores for hyphens; the other files there hold code that algorithms share.
`learners.registry` lists the learners by `algorithm`. The only file access is numba's cache of compiled kernels
(`learners.kernels`).
"""
