"""Middleware that every request passes: the request log, origins, limits and API keys."""
