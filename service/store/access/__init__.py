"""API keys and request counts in the store."""
