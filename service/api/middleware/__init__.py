"""Middleware that every request passes: limits, API keys and the request log."""
