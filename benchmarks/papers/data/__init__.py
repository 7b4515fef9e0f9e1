"""The streams of the papers' experiments."""
