"""A small HTTP client, and the loops and senders that use it."""
