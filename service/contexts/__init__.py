"""The kinds of contexts. Each kind is one class, in a file named after it."""
