"""The HTTP interface: one file per resource, with short handlers."""
