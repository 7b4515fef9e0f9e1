"""The models that exist: creating, listing, changing and deleting them, and reading their logs."""
