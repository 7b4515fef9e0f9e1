"""The store over the Redis protocol."""
