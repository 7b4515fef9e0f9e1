"""Models: definitions, changes, policies and choices of learners."""
