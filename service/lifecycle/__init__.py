"""The use cases that manage states of models: snapshots, rollback, reset, promotion, clone, export and import."""
