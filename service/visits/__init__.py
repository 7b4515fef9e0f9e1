"""Visits to models that are due, whether or not a worker has loaded them: expired predictions, old rounds."""
