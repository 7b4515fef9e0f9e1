"""The chapters, by topic."""
