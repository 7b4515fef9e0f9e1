"""The routes, one file per resource, with short handlers."""
