"""The HTTP interface: one file for each resource, handlers of a few lines."""
