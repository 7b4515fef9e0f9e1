"""Online bandit learners as pure functions of arrays: no clock, no network, no global random state.

Start with `learners.base`, which defines the interface of a learner. Each algorithm has one file in
`learners.algorithms`, named after its `algorithm` with underscores for hyphens; other files there contain shared code.
`learners.registry` lists the learners by `algorithm`. The only file access is numba's cache of compiled kernels
(`learners.kernels`).
"""
