"""Use cases of models: create, list, change and delete them, and read their logs."""
