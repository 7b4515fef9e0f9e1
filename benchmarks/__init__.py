"""Figures, each compared with a baseline from the same run. `make bench` prints them all."""
