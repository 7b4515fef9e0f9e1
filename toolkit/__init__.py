"""The tools of an operator or analyst, on top of a running service or of its files."""
