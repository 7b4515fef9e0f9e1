"""Performance measurements, each compared with a baseline from the same run. `make bench` runs them all."""
