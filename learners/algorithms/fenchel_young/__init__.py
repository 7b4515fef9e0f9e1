"""Fenchel-Young losses with randomized decoding."""
