"""The algorithms, in families: one file per algorithm, named after it with underscores for hyphens.

Files with other names contain code that the algorithms of a family share.
"""
