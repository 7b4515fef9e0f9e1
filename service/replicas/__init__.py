"""A worker's copy of a model: the fold over the log, its snapshots, its statistics, its quarantine, its upkeep."""
