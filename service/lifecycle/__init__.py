"""The use cases around the states of models: snapshots, rollback, reset, clone, export and import."""
