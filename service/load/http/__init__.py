"""A small HTTP client and what drives it."""
