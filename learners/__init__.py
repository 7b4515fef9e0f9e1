"""Online bandit learners as functions of arrays: no clock, no network, no global random state.

Start with `learners.base`, which defines the interface of a learner. Each algorithm has one file in
`learners.algorithms`, named after its `algorithm` with underscores for hyphens; other files there contain shared code.
`learners.registry` lists the learners by `algorithm`. Only `learners.kernels` accesses files: it hashes these sources,
to name the folder of numba's cache.
"""
