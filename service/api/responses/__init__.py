"""Reads request bodies; writes responses and problems."""
