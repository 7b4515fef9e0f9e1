"""Metrics, request log and traces."""
