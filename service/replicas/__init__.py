"""A worker's copy of a model: the fold over the log, snapshots, statistics, quarantine, and upkeep."""
