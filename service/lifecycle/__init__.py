"""The use cases that manage states of models: snapshots, rollback, reset, clone, export and import."""
