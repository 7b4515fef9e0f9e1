"""Answers of the API, recorded once and compared with those of today: `python -m tests.recordings` records them."""
