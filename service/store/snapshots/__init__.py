"""Snapshots as stored."""
