"""Commands that use a running service by HTTP, or files alone."""
