"""Connections to single servers, clusters, and servers watched by Sentinels."""
