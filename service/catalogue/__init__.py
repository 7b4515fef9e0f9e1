"""The use cases around models: create, list, read, delete, read the log, and search for damage."""
