"""A worker's copy of a model's state: the fold over the log, snapshots, statistics, and quarantine."""
