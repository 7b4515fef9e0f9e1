"""The use cases around models: create, list, read, delete, read the log, search for damage."""
