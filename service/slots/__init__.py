"""Answers of several slots: each is drawn among what the slots before it left."""
