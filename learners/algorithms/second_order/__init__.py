"""Learners with linear scores that are updated with a matrix of second moments, or its diagonal."""
