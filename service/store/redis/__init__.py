"""The implementation of the store over the Redis protocol."""
