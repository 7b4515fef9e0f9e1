"""Learners that update weights by gradients or after mistakes, and the uniform control."""
