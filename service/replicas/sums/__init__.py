"""Bounded sums of monitoring statistics: by label, over the course of the log, and of the latest rounds."""
