"""Formats of files with rounds."""
