"""Connections to servers, clusters and Sentinels."""
