"""The kinds of context that a model may have: each is one class, in a file named after it."""
