"""Models as values: definitions, changes, policies and choices of learners."""
